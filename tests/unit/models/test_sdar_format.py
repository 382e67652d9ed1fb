import pytest
import torch

from dllmzoo.errors import ModelError
from dllmzoo.models._lora import AdapterOff, FrozenCopy, add_lora
from dllmzoo.models.sdar import SdarConfig, SDARForCausalLM
from dllmzoo.recipe.sections import Lora
from tests.unit.models.blocks import close, drawn, in_blocks, logits
from tests.unit.models.tiny import sdar_4b, tiny_sdar, tokens


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
