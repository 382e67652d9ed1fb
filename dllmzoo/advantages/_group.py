"""Statistics over the rows of one prompt, taken over counted entries only."""

import torch
from torch import Tensor

from dllmzoo.records import Rewards, Rollout

ADDED = 1e-4
"""Added to a standard deviation before dividing by it, as GRPO first did."""


def answer_rewards(rewards: Rewards, rollout: Rollout) -> tuple[Tensor, Tensor]:
    """Rewards of the answers, float64, and whether they count; both (B, 1), where the rows are."""
    device = rollout.group_B.device
    reward_B1 = rewards.total_X.to(device).double().unsqueeze(1)
    return reward_B1, rewards.counted_X.to(device).unsqueeze(1)


def baselined(rewards: Rewards, rollout: Rollout, *, others: bool, scale_by_std: bool) -> Tensor:
    """Reward minus a mean of the group, float32 (B, 1).

    Args:
        rewards: of the answers.
        rollout: says which rows belong together.
        others: leave the sample itself out of the mean.
        scale_by_std: divide by the group's sample standard deviation plus 1e-4.
    """
    reward_B1, counted_B1 = answer_rewards(rewards, rollout)
    advantage_B1 = centred(reward_B1, counted_B1, rollout.group_B, others=others)
    if scale_by_std:
        advantage_B1 = advantage_B1 / (group_std(reward_B1, counted_B1, rollout.group_B) + ADDED)
    return advantage_B1.float()


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


def group_std(
    value_BA: Tensor, counted_BA: Tensor, group_B: Tensor, *, population: bool = False
) -> Tensor:
    """Standard deviation of each column over a row's group, float64; 0 for one row.

    Args:
        value_BA: any float.
        counted_BA: bool, entries that enter.
        group_B: any integers; equal ones belong together.
        population: divide the squares by n, not by n - 1.
    """
    gap_BA = value_BA.double() - group_mean(value_BA, counted_BA, group_B, others=False)
    square_BA = torch.where(counted_BA, gap_BA.square(), 0)
    freedom_BA = group_sum(counted_BA.double(), group_B) - (0 if population else 1)
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


def group_softmax(value_BA: Tensor, counted_BA: Tensor, group_B: Tensor) -> Tensor:
    """Softmax of each column over the counted rows of a group, float64; 0 where not counted."""
    groups, index_B = group_B.unique(return_inverse=True)
    value_BA = value_BA.double().masked_fill(~counted_BA, -torch.inf)
    index_BA = index_B.unsqueeze(1).expand_as(value_BA)
    top_PA = value_BA.new_full((len(groups), value_BA.shape[1]), -torch.inf)
    top_BA = top_PA.scatter_reduce(0, index_BA, value_BA, "amax")[index_B]
    weight_BA = torch.where(counted_BA, (value_BA - top_BA).exp(), 0)
    return torch.where(counted_BA, weight_BA / group_sum(weight_BA, group_B), 0)
