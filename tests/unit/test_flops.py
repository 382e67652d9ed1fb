from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from dllmzoo.errors import ModelError
from dllmzoo.flops import flops_backward, flops_forward
from dllmzoo.models._lora import add_lora
from dllmzoo.models.llada import LLaDAConfig
from dllmzoo.recipe.sections import Lora
from tests.unit.models.tiny import (
    dream_7b,
    llada_8b,
    sdar_4b,
    tiny,
    tiny_dream,
    tiny_sdar,
    tokens,
)

LORAS = [
    None,
    *(Lora(preset=preset, rank=3) for preset in ("attention", "mlp", "all-linear", "qkv_up")),
    Lora(targets=("q_proj", "k_proj", "blocks.*.ff_out"), rank=2),
]


def test_a_forward_by_hand():
    # D 4, one head group of 2 heads of width 2, one kv head, MLP 3, V 5, 2 blocks; 2 rows of 3:
    # a token in a block: q and o 2*2*16 = 64, k and v 2*2*4*2 = 32, MLP 3*2*12 = 72: 168
    # attention of a token: scores and mixture 2 * 2 * 3 keys * 4 = 48; both blocks
    # 6 * 2 * (168 + 48) = 2592; the head 6 * 2*4*5 = 240
    config = LLaDAConfig(
        d_model=4, n_layers=2, n_heads=2, n_kv_heads=1, mlp_hidden_size=3, vocab_size=5
    )
    assert flops_forward(config, rows=2, length=3) == 2592 + 240
    assert flops_backward(config, rows=2, length=3) == 2 * (2592 + 240)
    assert flops_backward(config, 2, 3, checkpointing=True) == 2 * 2832 + 2592 - 2 * 6 * 2 * 12
    # checkpointed: the blocks again, but for the product 2*3*4 of ff_out of each token
    # two logits: the last block has 6 * 32 for k and v, and 2 * (64 + 72 + 48); the head 2 * 40
    assert flops_forward(config, 2, 3, logits=2) == 6 * 216 + 6 * 32 + 2 * 184 + 80


def test_a_token_of_8b_costs_twice_its_matrix_weights():
    # all weights but the embedding and the norms, 8 015 581 184 - 126464*4096 - 65*4096
    config = llada_8b()
    weights = 8_015_581_184 - 126464 * 4096 - 65 * 4096
    assert flops_forward(config, 1, 1) == 2 * weights + 32 * 2 * 2 * 4096


@pytest.mark.parametrize(
    "lora", LORAS, ids=lambda lora: str(lora and (lora.targets or lora.preset))
)
@pytest.mark.parametrize(("scored", "kv_heads"), [(None, 4), (12, 2)])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_formulas_agree_with_torchs_counter(lora, scored, kv_heads, checkpointing):
    model = tiny(n_kv_heads=kv_heads).train()
    config = model.config
    if checkpointing:
        model.activation_checkpointing_enable()
    if lora is not None:
        model = add_lora(model, lora, seed=0)
    ids, at = tokens(4, 7), None
    if scored:
        at = torch.zeros_like(ids, dtype=torch.bool)
        at[:, 2:5] = True
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            total = model(ids, logits_at=at).logits.sum()
        with FlopCounterMode(display=False) as backward:
            total.backward()
    expected = flops_forward(config, 4, 7, scored, lora=lora)
    assert forward.get_total_flops() == pytest.approx(expected, rel=0.01)
    expected = flops_backward(config, 4, 7, scored, lora=lora, checkpointing=checkpointing)
    assert backward.get_total_flops() == pytest.approx(expected, rel=0.01)


def test_a_block_model_by_hand():
    # D 16, 4 heads of width 6 (24), 2 kv heads (12), MLP 24, V 9, 2 layers; blocks of 3; 2 x 7
    # a token in a layer: q and o 2*2*16*24 = 1536, k and v 2*2*16*12 = 768, MLP 3*2*16*24 = 2304
    # attention in one tile: 7 queries x 7 keys, a pair 2*2*24 = 96
    config = tiny_sdar().config
    layer = 14 * (1536 + 768 + 2304) + 2 * 49 * 96
    assert flops_forward(config, 2, 7) == 2 * layer + 14 * 2 * 16 * 9
    # two streams: blocks [3 6) and [6 7) noised, 4 columns; the clean one ends at 6, which the last
    # block reads: 10 columns. Slots 2 of each row: 10 columns of k and v, 2 queries in the last
    both = 20 * (1536 + 768 + 2304) + 2 * 100 * 96
    last = 20 * 768 + 4 * (1536 + 2304) + 2 * 2 * 10 * 96
    assert flops_forward(config, 2, 7, logits=4, target=4) == both + last + 4 * 2 * 16 * 9
    # 3 queries of each row against 6 cached tokens and themselves
    cached = 6 * (1536 + 768 + 2304) + 2 * 3 * 9 * 96
    assert flops_forward(config, 2, 3, keys=9) == 2 * cached + 6 * 2 * 16 * 9
    assert flops_backward(config, 2, 7, target=4) == 2 * flops_forward(config, 2, 7, target=4)


def test_a_token_of_a_block_model_costs_twice_its_matrix_weights():
    # 4B but the embedding and the norms: one of 2560, and 2 * 2560 + 2 * 128 of each of 36 layers
    weights = 4_411_424_256 - 151936 * 2560 - 2560 - 36 * (2 * 2560 + 2 * 128)
    assert flops_forward(sdar_4b(), 1, 1) == 2 * weights + 36 * 2 * 2 * 4096


BLOCK_LORAS = [
    None,
    *(Lora(preset=preset, rank=3) for preset in ("attention", "mlp", "all-linear")),
    Lora(targets=("q_proj", "self_attn.v_proj"), rank=2),
]


@pytest.mark.parametrize(
    "lora", BLOCK_LORAS, ids=lambda lora: str(lora and (lora.targets or lora.preset))
)
@pytest.mark.parametrize(
    ("length", "target", "scored"),
    [(8, 0, True), (8, 8, False), (300, 0, False), (300, 237, True)],
)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_formulas_of_blocks_agree_with_torchs_counter(
    lora, length, target, scored, checkpointing
):
    model = tiny_sdar(max_position_embeddings=512, tie_word_embeddings=scored).train()
    config = model.config
    if checkpointing:
        model.activation_checkpointing_enable()
    if lora is not None:
        model = add_lora(model, lora, seed=0)
    ids, at = tokens(2, length), None
    if scored:
        at = torch.zeros_like(ids, dtype=torch.bool)
        at[:, length - (target or length) :: 2] = True
    logits = None if at is None else int(at.sum())
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            total = model(ids, target_ids=ids if target else None, logits_at=at).logits.sum()
        with FlopCounterMode(display=False) as backward:
            total.backward()
    expected = flops_forward(config, 2, length, logits, target=target, lora=lora)
    assert forward.get_total_flops() == pytest.approx(expected, rel=0.01)
    expected = flops_backward(
        config, 2, length, logits, target=target, lora=lora, checkpointing=checkpointing
    )
    assert backward.get_total_flops() == pytest.approx(expected, rel=0.01)


def test_a_token_of_dream_costs_twice_its_matrix_weights():
    # 7B but the embedding, the norms (2 in each of 28 layers, and one) and the biases of q, k, v
    weights = 7_615_616_512 - 152064 * 3584 - 57 * 3584 - 28 * (3584 + 2 * 512)
    assert flops_forward(dream_7b(), 1, 1) == 2 * weights + 28 * 2 * 2 * 3584


@pytest.mark.parametrize(
    "lora", BLOCK_LORAS, ids=lambda lora: str(lora and (lora.targets or lora.preset))
)
@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_formulas_of_a_shifted_head_agree_with_torchs_counter(lora, scored, checkpointing):
    model, ids = tiny_dream(tie_word_embeddings=scored).train(), tokens(3, 7)
    config, at = model.config, torch.zeros_like(ids, dtype=torch.bool)
    at[:, :3] = True  # slots 0 and 1 read the head once each, though at the same place
    if checkpointing:
        model.activation_checkpointing_enable()
    if lora is not None:
        model = add_lora(model, lora, seed=0)
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            total = model(ids, logits_at=at if scored else None).logits.sum()
        with FlopCounterMode(display=False) as backward:
            total.backward()
    logits = 9 if scored else None
    expected = flops_forward(config, 3, 7, logits, lora=lora)
    assert forward.get_total_flops() == pytest.approx(expected, rel=0.01)
    expected = flops_backward(config, 3, 7, logits, lora=lora, checkpointing=checkpointing)
    assert backward.get_total_flops() == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("scored", [None, 4])
def test_cached_reads_agree_with_torchs_counter(scored):
    model, ids = tiny_sdar(), tokens(2, 9)
    cache, place = model.new_cache(9), torch.arange(9).expand(2, 9)
    at = None
    if scored:
        at = torch.tensor([[True, False, True]] * 2)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as prefill:
            model(ids[:, :6], cache=cache, store=True)
        with FlopCounterMode(display=False) as block:
            model(ids[:, 6:], position_ids=place[:, 6:], cache=cache, logits_at=at)
    assert prefill.get_total_flops() == flops_forward(model.config, 2, 6)
    assert block.get_total_flops() == flops_forward(model.config, 2, 3, scored, keys=9)


def test_full_attention_of_a_block_model_meets_every_pair():
    by_blocks, full = tiny_sdar().config, tiny_sdar(attention="full").config
    # 3 tiles of 128, 128 and 44 queries read 129, 258 and 300 keys
    fewer = 128 * (300 - 129) + 128 * (300 - 258)
    assert flops_forward(full, 1, 300) - flops_forward(by_blocks, 1, 300) == 2 * fewer * 96


def test_a_second_stream_needs_blocks_and_no_cache():
    for config, keys in ((tiny().config, None), (tiny_sdar().config, 9)):
        with pytest.raises(ModelError, match="second stream needs a network with blocks and no"):
            flops_forward(config, 1, 3, target=3, keys=keys)


def test_a_family_derived_from_another_has_its_formulas():
    class Derived(LLaDAConfig):
        model_type = "derived"
        __init__ = LLaDAConfig.__init__

    assert flops_forward(Derived(), 2, 3) == flops_forward(LLaDAConfig(), 2, 3)


def test_a_family_without_formulas_is_named():
    with pytest.raises(ModelError, match=r"no FLOP formulas for the family 'other'.*llada"):
        flops_forward(SimpleNamespace(model_type="other"), 1, 1)
