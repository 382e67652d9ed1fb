import re

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel

from dllmzoo import load_model
from dllmzoo.errors import ModelError
from dllmzoo.models._lora import AdapterOff, FrozenCopy, add_lora, lora_table
from dllmzoo.models.sdar import SdarConfig, SDARForCausalLM
from dllmzoo.recipe.sections import Lora
from dllmzoo.zoo import MODELS
from tests.unit.models.blocks import close, drawn, in_blocks, logits
from tests.unit.models.tiny import sdar_4b, small_sdar, tiny_sdar, tokens


def test_names_and_shapes_of_a_4b_checkpoint_are_the_public_ones():
    # 3 + 36 * 11 = 399 tensors; queries are wider than the network
    with torch.device("meta"):
        model = SDARForCausalLM(sdar_4b())
    D, F_, V = 2560, 9728, 151936
    expected = {"model.embed_tokens": (V, D), "model.norm": (D,), "lm_head": (V, D)}
    for n in range(36):
        layer = f"model.layers.{n}"
        expected |= {
            f"{layer}.input_layernorm": (D,), f"{layer}.post_attention_layernorm": (D,),
            f"{layer}.self_attn.q_proj": (4096, D), f"{layer}.self_attn.k_proj": (1024, D),
            f"{layer}.self_attn.v_proj": (1024, D), f"{layer}.self_attn.o_proj": (D, 4096),
            f"{layer}.self_attn.q_norm": (128,), f"{layer}.self_attn.k_norm": (128,),
            f"{layer}.mlp.gate_proj": (F_, D), f"{layer}.mlp.up_proj": (F_, D),
            f"{layer}.mlp.down_proj": (D, F_),
        }  # fmt: skip
    assert len(expected) == 399
    found = {name.removesuffix(".weight"): tuple(p.shape) for name, p in model.state_dict().items()}
    assert found == expected
    assert sum(p.numel() for p in model.parameters()) == 4_411_424_256


def test_8b_has_as_many_bytes_as_its_public_index_says():
    with torch.device("meta"):
        shape = {"hidden_size": 4096, "intermediate_size": 12288}
        model = SDARForCausalLM(SdarConfig.from_dict(sdar_4b().to_dict() | shape))
    assert 2 * sum(p.numel() for p in model.parameters()) == 16_381_470_720


def test_ids_of_the_public_vocabulary_and_of_a_small_one():
    with torch.device("meta"):
        model = SDARForCausalLM(sdar_4b())
    assert (model.mask_id, model.stop_ids, model.block_size) == (151669, (151643, 151645), 4)
    small = tiny_sdar()
    assert (small.mask_id, small.stop_ids, small.block_size) == (8, (7,), 3)
    assert tiny_sdar(eos_token_id=[7, 3, 7]).stop_ids == (7, 3)
    with pytest.raises(ModelError, match="has no mask_token_id"):
        _ = SDARForCausalLM(SdarConfig()).mask_id


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shard", ["5GB", "3KB"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_S26_saving_and_loading_is_bit_exact_under_the_same_names(tmp_path, tied, shard, dtype):
    model = tiny_sdar(tie_word_embeddings=tied).to(dtype)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert (len(files) > 1) == (shard == "3KB")
    saved = {name: value for file in files for name, value in load_file(file).items()}
    assert ("lm_head.weight" in saved) != tied
    loaded = load_model(tmp_path, dtype=dtype)
    plain = AutoModel.from_pretrained(tmp_path, torch_dtype=dtype, device_map="cpu")
    assert isinstance(plain, SDARForCausalLM)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), SdarConfig)
    ours = model.state_dict()
    assert ours.keys() == loaded.state_dict().keys() == plain.state_dict().keys()
    assert set(saved) == set(ours) - ({"lm_head.weight"} if tied else set())
    for name, value in ours.items():
        for other in (saved.get(name, value), loaded.state_dict()[name], plain.state_dict()[name]):
            assert other.dtype is dtype and torch.equal(other, value), name
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    if dtype is torch.float32:
        assert torch.equal(logits(loaded, tokens(2, 5)), logits(model, tokens(2, 5)))


def test_a_folder_of_the_public_format_is_loaded_and_written_back(tmp_path):
    config = SdarConfig.from_dict(small_sdar(torch_dtype="float32"))
    SDARForCausalLM(config).save_pretrained(tmp_path / "one")
    model = load_model(tmp_path / "one")
    assert type(model) is SDARForCausalLM and (model.mask_id, model.block_size) == (11, 3)
    model.save_pretrained(tmp_path / "two")
    for name in ("config.json", "model.safetensors"):
        first, second = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two"))
        assert first == second, name


def test_tensors_that_do_not_fit_are_all_named(tmp_path):
    tiny_sdar(num_hidden_layers=1).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    text = file.read_text()
    more = text.replace('"num_hidden_layers": 1', '"num_hidden_layers": 2')
    file.write_text(more.replace('"head_dim": 6', '"head_dim": 8'))
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path)
    assert "missing from the checkpoint: model.layers.1.input_layernorm.weight" in str(caught.value)
    shapes = r"q_norm\.weight \(\(6,\) in the checkpoint, \(8,\) in the network"
    assert re.search(shapes, str(caught.value))


def test_building_saving_and_loading_leave_the_global_generator_alone(tmp_path):
    before = torch.get_rng_state()
    tiny_sdar().save_pretrained(tmp_path)
    SDARForCausalLM(SdarConfig())
    SDARForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_fresh_weights_follow_the_stated_law_and_depend_on_the_seed():
    model = tiny_sdar(hidden_size=64, intermediate_size=256, initializer_range=0.05)
    weights = model.state_dict()
    for name in ("model.embed_tokens", "model.layers.1.mlp.down_proj", "lm_head"):
        assert weights[f"{name}.weight"].std().item() == pytest.approx(0.05, rel=0.1)
    assert (weights["model.layers.1.self_attn.q_norm.weight"] == 1).all()
    one, two = tiny_sdar(seed=1).state_dict(), tiny_sdar(seed=2).state_dict()
    assert not torch.equal(one["lm_head.weight"], two["lm_head.weight"])


def test_the_model_is_found_by_its_name():
    assert MODELS.get("sdar") is SDARForCausalLM
    assert "attention in blocks" in MODELS.summaries()["sdar"]


@pytest.mark.parametrize(
    ("preset", "kinds"),
    [
        ("attention", ["q_proj", "k_proj", "v_proj", "o_proj"]),
        ("mlp", ["gate_proj", "up_proj", "down_proj"]),
        (
            "all-linear",
            ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        ),
    ],
)
def test_a_preset_adapts_these_layers_of_every_block_and_never_the_head(preset, kinds):
    model = add_lora(tiny_sdar(), Lora(preset=preset, rank=2), seed=0)
    table = {row.kind.split(".")[-1]: row.layers for row in lora_table(model)}
    assert table == {**dict.fromkeys(kinds, 2), "total": 2 * len(kinds)}


def test_a_preset_of_another_family_is_refused():
    with pytest.raises(ModelError, match=r"sdar has no LoRA preset 'qkv_up'; it has attention"):
        add_lora(tiny_sdar(), Lora(preset="qkv_up"), seed=0)


def test_policy_attributes_cache_and_both_streams_pass_through_the_adapter():
    base, ids = tiny_sdar(), tokens(2, 9)
    noised, at = ids.masked_fill(drawn(ids), 8), drawn(ids, seed=4)
    expected = logits(base, ids, target_ids=noised, logits_at=at)
    model = add_lora(base, Lora(rank=2), seed=0)
    assert (model.block_size, model.mask_id, model.stop_ids) == (3, 8, (7,))
    assert torch.equal(logits(model, ids, target_ids=noised, logits_at=at), expected)
    close(in_blocks(model, ids, sizes=(3, 3, 3)), logits(model, ids))
    for reference in (AdapterOff(model), FrozenCopy(model)):
        assert reference.block_size == 3
        found = reference(ids, target_ids=noised, logits_at=at).logits
        close(found, expected, atol=1e-6)
    out = model(ids, target_ids=noised, logits_at=at).logits
    out.square().sum().backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None}
    assert trained and all("lora" in name for name in trained)
