"""Golden cases of family A, Dream: what the head says, and the same at the tokens it is about."""

import torch
from torch import Tensor

from tests.golden.case import Case, handles
from tests.golden.family_a import load, near_half_precision


def raw(model, ids: Tensor) -> Tensor:
    """The head's own numbers, those of position i being about token i + 1."""
    hidden = model(ids, output_hidden_states=True).hidden_states
    return model.get_output_embeddings()(hidden[-1])


@handles("A.dream.logits")
@torch.no_grad()
def check_logits(case: Case) -> None:
    """Unpadded rows: hidden states, the head, and its numbers at the tokens they are about."""
    model, ids = load(case), case["in.input_ids"]
    expected, every = case["out.logits_aligned"], torch.ones_like(ids)
    case.close(raw(model, ids), case["out.logits"], what="head")
    case.close(model(ids).logits, expected, what="logits")
    case.close(model(ids, every).logits, expected, what="mask of ones")
    at = every.cumsum(1) % 3 > 0  # two of three, the first and the second among them
    case.close(model(ids, logits_at=at).logits, expected[at], what="wanted slots")
    if "out.hidden_states" in case.tensors:
        hidden = torch.stack(model(ids, output_hidden_states=True).hidden_states)
        case.close(hidden, case["out.hidden_states"], what="hidden states")


@handles("A.dream.padded")
@torch.no_grad()
def check_padded(case: Case) -> None:
    """A ragged batch equals each row alone, wherever the mask is 1."""
    model, ids, mask = load(case), case["in.input_ids"], case["in.attention_mask"]
    real_BL = mask.bool()
    logits, expected = model(ids, mask).logits, case["out.logits_aligned"][real_BL]
    assert logits.isfinite().all()
    case.close(logits[real_BL], expected, what="logits")
    case.close(model(ids, mask, logits_at=real_BL).logits, expected, what="real slots only")


@handles("A.dream.bf16")
@torch.no_grad()
def check_half_precision(case: Case) -> None:
    """As of the other families, on the head's own numbers."""
    ids = case["in.input_ids"]
    near_half_precision(case, raw(load(case, "bfloat16"), ids), raw(load(case), ids))
