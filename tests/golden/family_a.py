"""Golden cases of family A: logits, hidden states, gradients and half precision of our models."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dllmzoo import load_model
from tests.golden.case import Case, handles


def load(case: Case, dtype: str = "float32") -> Any:
    """The network of the case, with its block size where it names one."""
    model = load_model(case.checkpoint, name=case.family.split(".")[1], dtype=dtype)
    if "block_size" in case.params:
        model.config.block_size = case.params["block_size"]
    return model


@handles("A.llada.logits")
def check_logits(case: Case) -> None:
    """Unpadded rows; where listed, the embedding, every block but the last, and the final norm."""
    model = load(case)
    ids = case["in.input_ids"]
    with torch.no_grad():
        out = model(ids, output_hidden_states=True)
    case.close(out.logits, case["out.logits"], what="logits")
    case.close(model(ids, torch.ones_like(ids)).logits, case["out.logits"], what="mask of ones")
    if "out.hidden_states" in case.tensors:
        hidden = torch.stack(out.hidden_states)
        case.close(hidden, case["out.hidden_states"], what="hidden states")


@handles("A.llada.padded", "A.sdar.padded")
def check_padded(case: Case) -> None:
    """A ragged batch equals each row alone, wherever the mask is 1."""
    model = load(case)
    ids, mask = case["in.input_ids"], case["in.attention_mask"]
    real_BL = mask.bool()
    with torch.no_grad():
        logits = model(ids, mask).logits
        narrow = model(ids, mask, logits_at=real_BL).logits
    assert logits.isfinite().all()
    case.close(logits[real_BL], case["out.logits"][real_BL], what="logits")
    case.close(narrow, case["out.logits"][real_BL], what="logits of the real slots only")


@handles("A.llada.grad", "A.sdar.grad", "A.dream.grad")
def check_gradients(case: Case) -> None:
    """Cross-entropy at the masked slots; gradient norm of every tensor of the checkpoint."""
    model = load(case)
    ids, targets = case["in.input_ids"], case["in.targets"]
    masked_BL = ids == model.mask_id
    for every_slot in (True, False):
        model.zero_grad()
        if every_slot:
            logits_SV = model(ids).logits[masked_BL]
        else:
            logits_SV = model(ids, logits_at=masked_BL).logits
        loss = F.cross_entropy(logits_SV, targets[masked_BL])
        loss.backward()
        case.close(loss.detach(), case["out.loss"], what="loss")
        norms = {name: p.grad.norm() for name, p in model.named_parameters()}
        expected = case.data["grad_norms"]
        assert norms.keys() == expected.keys()
        for name, value in expected.items():
            case.close(norms[name], torch.tensor(value), what=name)
        rows = model.get_input_embeddings().weight.grad[case["out.embedding_row_ids"]]
        case.close(rows, case["out.grad_embedding_rows"], what="embedding rows")


@handles("A.llada.bf16", "A.sdar.bf16")
def check_half_precision(case: Case) -> None:
    """bfloat16 strays from the released bfloat16 at most 1.5 times as far as that from float32."""
    ids = case["in.input_ids"]
    with torch.no_grad():
        half = load(case, "bfloat16")(ids).logits
        full = load(case)(ids).logits
    near_half_precision(case, half, full)


def near_half_precision(case: Case, half: Tensor, full: Tensor) -> None:
    """The logits in bfloat16 and in float32 against the released ones."""
    assert half.dtype is torch.bfloat16
    usual: Any = case.params["mean_abs_bf16_vs_fp32"]
    strayed = (half.float() - case["out.logits_bf16"]).abs().mean().item()
    assert strayed <= 1.5 * usual, f"{case.name}: mean difference {strayed:.3g}, usual {usual:.3g}"
    case.close(half.float(), case["out.logits_bf16"], what="bfloat16 logits")
    case.close(full, case["out.logits_fp32"], what="float32 logits", atol=1e-4, rtol=1e-4)
