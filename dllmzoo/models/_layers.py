"""Layers that the model families share: norm, rotary embedding, key mask, choice of slots."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Root-mean-square norm: float32 inside, back to the input's dtype, then times the weight.

    A float64 input stays float64 throughout.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        if torch.compiler.is_compiling():  # which decides itself what is kept
            return _normalised(x, self.weight, self.eps)
        return _Normalise.apply(x, self.weight, self.eps)  # type: ignore[return-value]


def _normalised(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return (_full(x) * _scale(x, eps)).to(x.dtype) * weight


class _Normalise(torch.autograd.Function):
    """The norm; saves what goes in and nothing that lies between."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return _normalised(x, weight, eps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        scale = _scale(x, ctx.eps)
        even = _full(x) * scale
        at_even = _full(grads[0] * weight)
        mean = _mean_product(at_even, even)
        at_x = ((at_even - even * mean) * scale).to(x.dtype)
        if not ctx.needs_input_grad[1]:
            return at_x, None, None
        return at_x, (grads[0] * even.to(x.dtype)).reshape(-1, x.shape[-1]).sum(0), None


def _scale(x: Tensor, eps: float) -> Tensor:
    """One over the root mean square of each row, (..., 1)."""
    full = _full(x)
    return torch.rsqrt(_mean_product(full, full) + eps)


def _mean_product(a: Tensor, b: Tensor) -> Tensor:
    """Mean of a * b over the last axis, (..., 1), in their own precision under autocast too."""
    with torch.autocast(a.device.type, enabled=False):
        return torch.linalg.vecdot(a, b).unsqueeze(-1) / a.shape[-1]


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up; `gate` is overwritten where no gradient can be asked for."""
    if torch.compiler.is_compiling():
        return F.silu(gate) * up
    if torch.is_grad_enabled():
        return _Gate.apply(gate, up)  # type: ignore[return-value]
    return F.silu(gate, inplace=True).mul_(up)


class _Gate(torch.autograd.Function):
    """silu(gate) * up; saves the two only."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        at_silu = grads[0] * up
        if torch.is_grad_enabled():  # a second derivative is asked for, which the kernel lacks
            share = torch.sigmoid(gate)
            at_gate = at_silu * share * (1 + gate * (1 - share))
        else:
            at_gate = torch.ops.aten.silu_backward(at_silu, gate)
        return at_gate, grads[0] * F.silu(gate)


class _Rotate(torch.autograd.Function):
    """Rotation of the pairs (i, i + E/2); saves the angles only, and its backward turns back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        half = x.shape[-1] // 2
        first, second = x[..., :half], x[..., half:]
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        torch.mul(first, cos, out=out[..., :half]).addcmul_(second, sin, value=-1)
        torch.mul(second, cos, out=out[..., half:]).addcmul_(first, sin)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _Rotate.apply(grads[0], cos, -sin), None, None  # type: ignore[return-value]


def rotate(x_BHLE: Tensor, angles: tuple[Tensor, Tensor], full_precision: bool = True) -> Tensor:
    """Rotary embedding of queries or keys: float32 (or float64) inside, back to the input's dtype.

    Args:
        x_BHLE: queries or keys.
        angles: cos and sin of `rotary_angles`, broadcastable to (B, H, L, E/2).
        full_precision: False rotates in the dtype of `x_BHLE`.
    """
    turned = _full(x_BHLE) if full_precision else x_BHLE
    cos, sin = (angle.to(turned.dtype) for angle in angles)
    if torch.compiler.is_compiling():  # which fuses this, and cannot trace writing into parts
        first, second = turned.chunk(2, -1)
        both = [first * cos - second * sin, second * cos + first * sin]
        return torch.cat(both, -1).to(x_BHLE.dtype)
    return _Rotate.apply(turned, cos, sin).to(x_BHLE.dtype)  # type: ignore


def _full(x: Tensor) -> Tensor:
    """The input in float32, or in float64 if it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def rotary_angles(position_BL: Tensor, head_width: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cos and sin, float32 (B, 1, L, E/2), of position times the E/2 inverse frequencies."""
    exponent = torch.arange(0, head_width, 2, device=position_BL.device).float() / head_width
    angle = position_BL[:, None, :, None].float() * (1.0 / theta**exponent)
    return angle.cos(), angle.sin()


def positions(input_ids: Tensor, attend_BL: Tensor | None) -> Tensor:
    """Real tokens before each slot, int64 (B, L), or (1, L) where nothing is padded."""
    if attend_BL is None:
        return torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
    return (attend_BL.long().cumsum(1) - 1).clamp(min=0)


def column_before(input_ids: Tensor, attend_BL: Tensor | None) -> Tensor:
    """Column of the real token before each slot, int64 (B, L); its own where there is none."""
    column_BL = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    if attend_BL is None:
        return (column_BL - 1).clamp(min=0)
    last_BL = column_BL.masked_fill(~attend_BL, -1).cummax(1).values
    before_BL = torch.nn.functional.pad(last_BL[:, :-1], (1, 0), value=-1)
    return torch.where(before_BL < 0, column_BL, before_BL)


def key_mask(attend_BL: Tensor) -> Tensor:
    """Bool (B, 1, 1, L), True = may be attended, for every query alike: never causal.

    A row of nothing but padding attends to all of it, so that no row becomes NaN.
    """
    return (attend_BL | ~attend_BL.any(1, keepdim=True))[:, None, None, :]


class Slots(NamedTuple):
    """The slots of a batch whose logits are wanted, and where they go if rows are packed.

    `flat_S` counts over (B, L); `place_S` counts over (B, M), M the most slots of a row;
    `place_S` is None where every row has M slots.
    """

    flat_S: Tensor
    place_S: Tensor | None
    rows: int
    most: int

    @classmethod
    def of(cls, chosen_BL: Tensor) -> Slots:
        """The slots where `chosen_BL` is True, row by row."""
        rows = len(chosen_BL)
        flat_S = chosen_BL.flatten().nonzero().squeeze(1)
        count_BL = chosen_BL.long().cumsum(1)
        most = max(1, int(count_BL[:, -1].max())) if count_BL.numel() else 1
        if flat_S.numel() == rows * most:
            return cls(flat_S, None, rows, most)
        row_B1 = torch.arange(rows, device=chosen_BL.device).unsqueeze(1)
        place_BL = row_B1 * most + count_BL - 1
        return cls(flat_S, place_BL.flatten()[flat_S], rows, most)

    @classmethod
    def at(cls, column_BM: Tensor, length: int) -> Slots:
        """The slots of the given columns of rows of `length` slots; nothing waits for a device."""
        rows, most = column_BM.shape
        start_B1 = torch.arange(rows, device=column_BM.device).unsqueeze(1) * length
        return cls((start_B1 + column_BM).flatten(), None, rows, max(1, most))

    def moved(self, source_BL: Tensor) -> Slots:
        """As many slots in the same order, each read from a column of its row.

        Args:
            source_BL: int64, the column that the logits of each slot come from; it may serve two.
        """
        start_B1 = torch.arange(self.rows, device=source_BL.device).unsqueeze(1)
        flat_BL = start_B1 * source_BL.shape[1] + source_BL
        return self._replace(flat_S=flat_BL.flatten()[self.flat_S])

    def angles(self, angles: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Cos and sin of the packed slots, (B, 1, M, E/2), from those of all positions."""
        cos, sin = (self._pack_angle(angle) for angle in angles)
        return cos, sin

    def _pack_angle(self, angle: Tensor) -> Tensor:
        repeated = angle.squeeze(1).expand(self.rows, -1, -1)
        return self.pack(self.take(repeated)).unsqueeze(1)

    def take(self, x_BLD: Tensor) -> Tensor:
        """The chosen slots, (S, D)."""
        return x_BLD.flatten(0, 1).index_select(0, self.flat_S)

    def pack(self, x_SD: Tensor) -> Tensor:
        """Rows of M slots each, (B, M, D); zeros fill short rows."""
        if self.place_S is not None:
            empty = x_SD.new_zeros(self.rows * self.most, x_SD.shape[-1])
            x_SD = empty.index_copy(0, self.place_S, x_SD)
        return x_SD.view(self.rows, self.most, -1)

    def unpack(self, x: Tensor) -> Tensor:
        """The inverse of `pack`: (B, M, D) in, (S, D) out."""
        x = x.flatten(0, 1)
        return x if self.place_S is None else x.index_select(0, self.place_S)
