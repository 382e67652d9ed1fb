"""Log-ratios of units: which units count, what their length divides, what bounds their exponent."""

from typing import Literal

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.records import Estimate, Units

LengthNorm = Literal["none", "token", "canvas"]
"""What total nats are divided by: nothing, the unit's tokens, or N."""

LIMIT = 82.0
"""Largest exponent, nats: exp(82) is 4e35, which leaves room below the float32 maximum."""


def alive(value_BU: Tensor, units: Units) -> Tensor:
    """The values of live units and 0 elsewhere: dead units, even NaN ones, pass nothing on."""
    return torch.where(units.live_BU, value_BU, 0)


def per_length(total_BU: Tensor, units: Units, length_norm: LengthNorm) -> Tensor:
    """Total nats of each unit divided as `length_norm` says."""
    if length_norm == "token":
        return total_BU / units.size_BU.clamp(min=1)
    if length_norm == "canvas":
        return total_BU / max(units.canvas, 1)
    return total_BU


def log_ratio(new: Estimate, old: Estimate | None, units: Units, length_norm: LengthNorm) -> Tensor:
    """log(new / old) of each unit, nats divided as `length_norm` says; 0 for dead units."""
    return per_length(alive(new.ratio_BU - frozen_ratio(old, "old"), units), units, length_norm)


def row_log_ratio(
    new: Estimate, old: Estimate | None, units: Units, length_norm: LengthNorm
) -> Tensor:
    """One log-ratio for all units of a row: their sum over the row, divided by the row's length.

    The length is the sum of the live units' tokens (`token`), N (`canvas`), or 1 (`none`).
    """
    gap_BU = alive(new.ratio_BU - frozen_ratio(old, "old"), units)
    row_B1 = gap_BU.sum(1, keepdim=True)
    if length_norm == "token":
        row_B1 = row_B1 / alive(units.size_BU, units).sum(1, keepdim=True).clamp(min=1)
    elif length_norm == "canvas":
        row_B1 = row_B1 / max(units.canvas, 1)
    return row_B1.expand_as(gap_BU)


def bounded(exponent: Tensor) -> Tensor:
    """The exponent, at most `LIMIT`; its gradient stays 1, so that a pull beyond it still pulls."""
    return exponent - (exponent.detach() - LIMIT).clamp(min=0)


def frozen_ratio(estimate: Estimate | None, whose: str) -> Tensor:
    """Total nats of the old or the reference policy, without gradient.

    Raises:
        UsageError: they are missing, though the loss says that it reads them.
    """
    if estimate is None:
        raise UsageError(
            f"this loss reads the log-probs of the {whose} policy, and they were not given; "
            f"score them, or set the loss not to need them"
        )
    return estimate.ratio_BU.detach()
