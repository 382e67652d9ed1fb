"""Statistics over the rows of one prompt, taken over counted entries only."""

import torch
from torch import Tensor


def group_mean(value_BA: Tensor, counted_BA: Tensor, group_B: Tensor, *, others: bool) -> Tensor:
    """Mean of each column over the counted rows of a row's group, float64 (B, A).

    Sums are made in float64, in which rewards of float32 add up exactly: equal rewards then have
    exactly their own value as mean, and the order of the rows does not matter.

    Args:
        value_BA: any float.
        counted_BA: bool, entries that enter.
        group_B: any integers; equal ones belong together.
        others: leave the row itself out; a row without others gets its own value.
    """
    value_BA = torch.where(counted_BA, value_BA.double(), 0)
    sum_BA, count_BA = group_sum(value_BA, group_B), group_sum(counted_BA.double(), group_B)
    if others:
        sum_BA, count_BA = sum_BA - value_BA, count_BA - counted_BA.double()
    return torch.where(count_BA > 0, sum_BA / count_BA.clamp(min=1), value_BA)


def group_std(value_BA: Tensor, counted_BA: Tensor, group_B: Tensor) -> Tensor:
    """Sample standard deviation of each column over a row's group, float64; 0 for one row."""
    gap_BA = value_BA.double() - group_mean(value_BA, counted_BA, group_B, others=False)
    square_BA = torch.where(counted_BA, gap_BA.square(), 0)
    freedom_BA = group_sum(counted_BA.double(), group_B) - 1
    return (group_sum(square_BA, group_B) / freedom_BA.clamp(min=1)).sqrt()


def group_sum(value_BA: Tensor, group_B: Tensor) -> Tensor:
    """Sum of each column over the rows of a row's group, (B, A)."""
    groups, index_B = group_B.unique(return_inverse=True)
    sum_PA = value_BA.new_zeros(len(groups), value_BA.shape[1]).index_add(0, index_B, value_BA)
    return sum_PA[index_B]


def centred(
    value_BA: Tensor, counted_BA: Tensor, group_B: Tensor, *, others: bool = False
) -> Tensor:
    """Value minus its group's mean, float64; exactly 0 where not counted or alone in the group."""
    gap_BA = value_BA.double() - group_mean(value_BA, counted_BA, group_B, others=others)
    return torch.where(grouped(counted_BA, group_B), gap_BA, 0)


def grouped(counted_BA: Tensor, group_B: Tensor) -> Tensor:
    """Bool (B, A): entries that count and have another counted one in their group."""
    return counted_BA & (group_sum(counted_BA.double(), group_B) >= 2)
