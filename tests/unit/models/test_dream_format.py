import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel

from dllmzoo import load_model
from dllmzoo.errors import ModelError
from dllmzoo.models._lora import AdapterOff, add_lora, lora_table
from dllmzoo.models.dream import DreamConfig, DreamModel
from dllmzoo.recipe.sections import Lora
from dllmzoo.zoo import MODELS
from tests.unit.models.blocks import close, drawn, logits
from tests.unit.models.tiny import dream_7b, small_dream, tiny, tiny_dream, tokenizer, tokens


def test_names_and_shapes_of_a_7b_checkpoint_are_the_public_ones():
    # 3 + 28 * 12 = 339 tensors
    with torch.device("meta"):
        model = DreamModel(dream_7b())
    D, F_, V, K = 3584, 18944, 152064, 512
    expected = {"model.embed_tokens.weight": (V, D), "model.norm.weight": (D,)}
    expected["lm_head.weight"] = (V, D)
    for n in range(28):
        layer = f"model.layers.{n}"
        shapes = {
            "input_layernorm.weight": (D,), "post_attention_layernorm.weight": (D,),
            "self_attn.q_proj.weight": (D, D), "self_attn.q_proj.bias": (D,),
            "self_attn.k_proj.weight": (K, D), "self_attn.k_proj.bias": (K,),
            "self_attn.v_proj.weight": (K, D), "self_attn.v_proj.bias": (K,),
            "self_attn.o_proj.weight": (D, D),
            "mlp.gate_proj.weight": (F_, D), "mlp.up_proj.weight": (F_, D),
            "mlp.down_proj.weight": (D, F_),
        }  # fmt: skip
        expected |= {f"{layer}.{name}": shape for name, shape in shapes.items()}
    assert len(expected) == 339
    assert {name: tuple(p.shape) for name, p in model.state_dict().items()} == expected
    assert sum(p.numel() for p in model.parameters()) == 7_615_616_512


def test_ids_of_the_public_vocabulary_and_of_a_small_one():
    with torch.device("meta"):
        model = DreamModel(dream_7b())
    assert (model.mask_id, model.stop_ids, model.block_size) == (151666, (151643, 151645), None)
    small = tiny_dream()
    assert (small.mask_id, small.stop_ids, small.block_size) == (8, (7,), None)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shard", ["5GB", "3KB"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_S26_saving_and_loading_is_bit_exact_under_the_same_names(tmp_path, tied, shard, dtype):
    model = tiny_dream(tie_word_embeddings=tied).to(dtype)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert (len(files) > 1) == (shard == "3KB")
    saved = {name: value for file in files for name, value in load_file(file).items()}
    assert ("lm_head.weight" in saved) != tied
    loaded = load_model(tmp_path, dtype=dtype)
    plain = AutoModel.from_pretrained(tmp_path, torch_dtype=dtype, device_map="cpu")
    assert isinstance(plain, DreamModel)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), DreamConfig)
    ours = model.state_dict()
    assert ours.keys() == loaded.state_dict().keys() == plain.state_dict().keys()
    assert set(saved) == set(ours) - ({"lm_head.weight"} if tied else set())
    for name, value in ours.items():
        for other in (saved.get(name, value), loaded.state_dict()[name], plain.state_dict()[name]):
            assert other.dtype is dtype and torch.equal(other, value), name
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    assert torch.equal(logits(loaded, tokens(2, 5)), logits(model, tokens(2, 5)))


def test_a_folder_of_the_public_format_is_loaded_and_written_back(tmp_path):
    config = DreamConfig.from_dict(small_dream(torch_dtype="float32"))
    DreamModel(config).save_pretrained(tmp_path / "one")
    model = load_model(tmp_path / "one")
    assert type(model) is DreamModel and (model.mask_id, model.stop_ids) == (11, (10,))
    model.save_pretrained(tmp_path / "two")
    for name in ("config.json", "model.safetensors"):
        first, second = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two"))
        assert first == second, name


def test_tensors_that_do_not_fit_are_all_named(tmp_path):
    tiny_dream(num_hidden_layers=1).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    fields = json.loads(file.read_text()) | {"num_hidden_layers": 2, "intermediate_size": 20}
    file.write_text(json.dumps(fields))
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path)
    assert "missing from the checkpoint: model.layers.1.input_layernorm.weight" in str(caught.value)
    assert "model.layers.1.self_attn.q_proj.bias" in str(caught.value)
    shapes = "gate_proj.weight ((24, 16) in the checkpoint, (20, 16) in the network)"
    assert shapes in str(caught.value)


def test_S8_weights_of_one_family_in_a_recipe_of_another_are_refused_naming_both(tmp_path):
    for folder, model in (("dream", tiny_dream()), ("llada", tiny())):
        model.save_pretrained(tmp_path / folder)
        tokenizer().save_pretrained(tmp_path / folder)
    with pytest.raises(ModelError, match=r"of the family 'Dream', but .*`model.name: llada`"):
        load_model(tmp_path / "dream", name="llada")
    with pytest.raises(ModelError, match=r"'llada', but .*`model.name: dream` \(model_type 'Dream"):
        load_model(tmp_path / "llada", name="dream")
    assert load_model(tmp_path / "dream", name="dream").family == "dream"


def test_building_saving_and_loading_leave_the_global_generator_alone(tmp_path):
    before = torch.get_rng_state()
    model = tiny_dream()
    model.save_pretrained(tmp_path)
    DreamModel(model.config)
    DreamModel.from_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_fresh_weights_follow_the_stated_law_and_depend_on_the_seed():
    shape = {"hidden_size": 64, "intermediate_size": 256, "initializer_range": 0.05}
    weights = tiny_dream(**shape).state_dict()
    for name in ("model.embed_tokens", "model.layers.1.mlp.down_proj", "lm_head"):
        assert weights[f"{name}.weight"].std().item() == pytest.approx(0.05, rel=0.1)
    assert (weights["model.layers.1.input_layernorm.weight"] == 1).all()
    one, two = tiny_dream(seed=1).state_dict(), tiny_dream(seed=2).state_dict()
    assert not torch.equal(one["lm_head.weight"], two["lm_head.weight"])


def test_the_model_is_found_by_its_name():
    assert MODELS.get("dream") is DreamModel
    assert "its logits set right" in MODELS.summaries()["dream"]


ATTENTION, MLP = ["q_proj", "k_proj", "v_proj", "o_proj"], ["gate_proj", "up_proj", "down_proj"]


@pytest.mark.parametrize(
    ("preset", "kinds"), [("attention", ATTENTION), ("mlp", MLP), ("all-linear", ATTENTION + MLP)]
)
def test_a_preset_adapts_these_layers_of_every_block_and_never_the_head(preset, kinds):
    model = add_lora(tiny_dream(), Lora(preset=preset, rank=2), seed=0)
    table = {row.kind.split(".")[-1]: row.layers for row in lora_table(model)}
    assert table == {**dict.fromkeys(kinds, 2), "total": 2 * len(kinds)}


def test_names_that_match_nothing_are_refused_with_the_real_ones():
    with pytest.raises(ModelError, match=r"dream has no LoRA preset 'qkv_up'; it has attention"):
        add_lora(tiny_dream(), Lora(preset="qkv_up"), seed=0)
    with pytest.raises(ModelError, match=r"called 'ff_out'; in the blocks of dream there are self"):
        add_lora(tiny_dream(), Lora(targets=("q_proj", "ff_out")), seed=0)


@pytest.mark.parametrize("tied", [False, True])
def test_an_adapter_trains_saves_loads_and_merges_into_a_public_folder(tmp_path, tied):
    base, ids = tiny_dream(tie_word_embeddings=tied), tokens(2, 6)
    at, before = drawn(ids), logits(base, ids)
    base.save_pretrained(tmp_path / "base")
    names = set(base.state_dict())
    base.name_or_path = str(tmp_path / "base")
    model = add_lora(base, Lora(preset="all-linear", rank=2), seed=0)
    assert model.shifted_head and (model.mask_id, model.stop_ids) == (8, (7,))
    close(logits(model, ids), before, atol=0)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        model(ids, logits_at=at).logits.square().sum().backward()
        optimizer.step()
    trained = logits(model, ids, logits_at=at)
    assert (trained - before[at]).abs().max() > 0.1
    close(AdapterOff(model)(ids).logits, before, atol=0)

    model.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    loaded = load_model(tmp_path / "adapter", name="dream")
    assert isinstance(loaded, PeftModel)
    assert torch.equal(logits(loaded, ids, logits_at=at), trained)
    merged = loaded.merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    again = load_model(tmp_path / "merged", name="dream")
    assert type(again) is DreamModel and set(again.state_dict()) == names
    close(logits(again, ids, logits_at=at), trained)
