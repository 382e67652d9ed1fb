import pytest
import torch
from peft import PeftModel

from dllmzoo import load_model
from dllmzoo.errors import ModelError
from dllmzoo.models._lora import AdapterOff, add_lora
from dllmzoo.models.dream import DreamModel
from dllmzoo.recipe.sections import Lora
from tests.unit.models.blocks import close, drawn, logits
from tests.unit.models.tiny import dream_7b, tiny, tiny_dream, tokenizer, tokens


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


def test_S8_weights_of_one_family_in_a_recipe_of_another_are_refused_naming_both(tmp_path):
    for folder, model in (("dream", tiny_dream()), ("llada", tiny())):
        model.save_pretrained(tmp_path / folder)
        tokenizer().save_pretrained(tmp_path / folder)
    with pytest.raises(ModelError, match=r"of the family 'Dream', but .*`model.name: llada`"):
        load_model(tmp_path / "dream", name="llada")
    with pytest.raises(ModelError, match=r"'llada', but .*`model.name: dream` \(model_type 'Dream"):
        load_model(tmp_path / "llada", name="dream")
    assert load_model(tmp_path / "dream", name="dream").family == "dream"


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
