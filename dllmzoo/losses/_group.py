"""Sums and softmaxes over live units that belong together: a prompt's group, a parent's slot."""

import math

import torch
from torch import Tensor

from dllmzoo.records import Units


def group_index(units: Units) -> Tensor:
    """Prompt of each unit, counted from 0, int64 (B, U)."""
    _, index_B = units.group_B.to(units.live_BU.device).unique(return_inverse=True)
    return index_B.unsqueeze(1).expand(units.live_BU.shape)


def sum_by(index_BU: Tensor, value_BU: Tensor, units: Units) -> Tensor:
    """Sum over the live units of equal index, at each unit, (B, U)."""
    index = index_BU.flatten()
    empty = value_BU.new_zeros(int(index.max()) + 1 if index.numel() else 0)
    return empty.index_add(0, index, torch.where(units.live_BU, value_BU, 0).flatten())[index_BU]


def softmax_by(index_BU: Tensor, log_BU: Tensor, units: Units) -> Tensor:
    """Softmax over the live units of equal index; 0 for dead units, and where all logs are -inf."""
    index = index_BU.flatten()
    open_BU = log_BU.masked_fill(~units.live_BU, -math.inf)
    lowest = log_BU.new_full((int(index.max()) + 1 if index.numel() else 0,), -math.inf)
    peak_BU = lowest.scatter_reduce(0, index, open_BU.flatten(), "amax")[index_BU]
    power_BU = (open_BU - torch.where(peak_BU.isfinite(), peak_BU, 0)).exp()
    sum_BU = sum_by(index_BU, power_BU, units)
    return power_BU / torch.where(sum_BU > 0, sum_BU, 1)


def count_by(index_BU: Tensor, units: Units) -> Tensor:
    """How many live units have the same index, float32 (B, U)."""
    return sum_by(index_BU, torch.ones_like(units.size_BU), units)


def ess_share(share_BU: Tensor, units: Units) -> Tensor:
    """Effective sample size of a group over the number of its live units, (B, U).

    With shares w that sum to 1 in a group of n live units it is 1 / (n * sum of w^2): 1 where all
    weigh alike, 1/n where one has everything, 0 where nothing weighs.
    """
    index_BU = group_index(units)
    square_BU = sum_by(index_BU, share_BU.square(), units)
    count_BU = count_by(index_BU, units).clamp(min=1)
    return torch.where(square_BU > 0, 1 / (square_BU * count_BU), 0)
