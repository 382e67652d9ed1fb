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
from tests.unit.models.tiny import llada_8b, tiny, tokens

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


def test_a_family_derived_from_another_has_its_formulas():
    class Derived(LLaDAConfig):
        model_type = "derived"
        __init__ = LLaDAConfig.__init__

    assert flops_forward(Derived(), 2, 3) == flops_forward(LLaDAConfig(), 2, 3)


def test_a_family_without_formulas_is_named():
    with pytest.raises(ModelError, match=r"no FLOP formulas for the family 'other'.*llada"):
        flops_forward(SimpleNamespace(model_type="other"), 1, 1)
