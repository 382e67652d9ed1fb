"""Linear layers whose float32 products on a CPU are oneDNN's.

The BLAS that torch ships uses narrow vectors on processors that are not Intel's. oneDNN, which
torch ships too and uses for bfloat16, uses what there is: on an AMD Zen 5 it is about twice as
fast. Results differ by rounding.
"""

from __future__ import annotations

import platform
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WORTH = 2**22
"""Multiply-adds of a product from which on it is taken to oneDNN; below, the call is what costs."""

AVAILABLE = (
    platform.machine() in ("x86_64", "AMD64")
    and torch.backends.mkldnn.is_available()
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)


class Linear(nn.Linear):
    """`nn.Linear` by another product, with the same names and numbers."""

    def forward(self, input: Tensor) -> Tensor:
        """Input times weight, and the bias."""
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """As `torch.nn.functional.linear`: x W^T + b.

    Args:
        x: (..., K).
        weight: (N, K).
        bias: (N,).
    """
    if not _is_worth_it(x, weight):
        return F.linear(x, weight, bias)
    flat = x.reshape(-1, x.shape[-1])
    made = _Product.apply(flat, weight) if torch.is_grad_enabled() else _product(flat, weight)
    made = made.view(*x.shape[:-1], weight.shape[0])  # type: ignore[union-attr]
    return made if bias is None else made + bias


def _is_worth_it(x: Tensor, weight: Tensor) -> bool:
    return (
        AVAILABLE
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and x.numel() * weight.shape[0] >= WORTH
        and type(x) is Tensor
        and type(weight) in (Tensor, nn.Parameter)
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and torch.backends.mkldnn.enabled  # type: ignore[attr-defined]
    )


def _product(a_MK: Tensor, b_NK: Tensor) -> Tensor:
    """Product a b^T, (M, N); either may be a transposed view."""
    return torch.ops.mkldnn._linear_pointwise(a_MK, b_NK, None, "none", [], "")


class _Product(torch.autograd.Function):
    """Product a b^T; keeps a only if b wants a gradient, as a frozen layer does not."""

    @staticmethod
    def forward(ctx: Any, a_MK: Tensor, b_NK: Tensor) -> Tensor:
        ctx.save_for_backward(a_MK if ctx.needs_input_grad[1] else None, b_NK)
        return _product(a_MK, b_NK)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a_MK, b_NK = ctx.saved_tensors
        again: Any = _Product.apply if torch.is_grad_enabled() else _product
        at_a = again(grads[0], b_NK.t()) if ctx.needs_input_grad[0] else None
        at_b = again(grads[0].t(), a_MK.t()) if ctx.needs_input_grad[1] else None
        return at_a, at_b
