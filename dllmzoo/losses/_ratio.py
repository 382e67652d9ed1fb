"""Log-ratios of units: which units count, what their length divides, what bounds their exponent."""

import math
from typing import Literal

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.losses._group import ess_share, group_index, softmax_by
from dllmzoo.records import Estimate, Units

LengthNorm = Literal["none", "token", "canvas"]
"""What total nats are divided by: nothing, the unit's tokens, or N."""

Level = Literal["unit", "sequence"]
"""Whether each unit has a ratio of its own, or all units of a sequence share one."""

LIMIT = 82.0
"""Largest exponent, nats: exp(82) is 4e35, which leaves room below the float32 maximum."""

WEIGHT_LIMIT = 64.0
"""Of constants that multiply log-probs: exp(64) is 6e27, which leaves room for 1e9 nats."""


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


def per_row(total_BU: Tensor, units: Units, length_norm: LengthNorm) -> Tensor:
    """Total nats of each row over its units, divided by the row's length; the same at each unit.

    The length is the sum of the live units' tokens (`token`), N (`canvas`), or 1 (`none`).
    """
    row_B1 = alive(total_BU, units).sum(1, keepdim=True)
    if length_norm == "token":
        row_B1 = row_B1 / alive(units.size_BU, units).sum(1, keepdim=True).clamp(min=1)
    elif length_norm == "canvas":
        row_B1 = row_B1 / max(units.canvas, 1)
    return row_B1.expand_as(total_BU)


def log_ratio(
    new: Estimate,
    old: Estimate | None,
    units: Units,
    length_norm: LengthNorm,
    level: Level = "unit",
) -> Tensor:
    """log(new / old), nats divided as `length_norm` says: of each unit, 0 where dead, or of rows.

    On level `sequence` all units of a row have the log-ratio of the row, see `per_row`.
    """
    gap_BU = alive(new.ratio_BU - frozen_ratio(old, "old"), units)
    return (per_row if level == "sequence" else per_length)(gap_BU, units, length_norm)


def bounded(exponent: Tensor) -> Tensor:
    """The exponent, at most `LIMIT`; its gradient stays 1, so that a pull beyond it still pulls."""
    return exponent - (exponent.detach() - LIMIT).clamp(min=0)


def constant_weight(log_weight: Tensor) -> Tensor:
    """The exponential as a constant that multiplies log-probs, of at most `WEIGHT_LIMIT` nats."""
    return log_weight.detach().clamp(max=WEIGHT_LIMIT).exp()


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


def ratio_metrics(
    log_ratio_BU: Tensor, units: Units, clipped_BU: Tensor | None = None
) -> dict[str, Tensor]:
    """What losses on ratios report, from the log-ratios before and, if there is one, after a clip.

    `ess_share` is that of the ratios that the loss uses, inside a prompt's group.
    """
    log_ratio_BU = log_ratio_BU.detach()
    used_BU = log_ratio_BU if clipped_BU is None else clipped_BU.detach()
    share_BU = softmax_by(group_index(units), used_BU, units)
    found = {
        "ratio": bounded(log_ratio_BU).exp(),
        "log_ratio": log_ratio_BU,
        "ess_share": ess_share(share_BU, units),
    }
    return found if clipped_BU is None else found | {"ratio_clipped": bounded(used_BU).exp()}


def clip_metrics(below_BU: Tensor, above_BU: Tensor) -> dict[str, Tensor]:
    """Shares of units that a clip holds back: below its range, above it, and both."""
    return {
        "clip_fraction": (below_BU | above_BU).float(),
        "clip_low_fraction": below_BU.float(),
        "clip_high_fraction": above_BU.float(),
    }


def log_bounds(clip_low: float | None, clip_high: float | None) -> tuple[float, float]:
    """Bounds of a log-ratio from distances of the ratio from 1; infinite where there is none."""
    low = -math.inf if clip_low is None or clip_low >= 1 else math.log1p(-clip_low)
    high = math.inf if clip_high is None else math.log1p(clip_high)
    return low, high
