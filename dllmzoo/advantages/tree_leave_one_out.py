"""Credit of each edge of a tree of answers against its siblings."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dllmzoo.advantages._group import answer_rewards
from dllmzoo.branches import edge_starts, first_sharers
from dllmzoo.errors import UsageError
from dllmzoo.records import Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES


@ADVANTAGES.register("tree_leave_one_out", aliases=("tree_loo",))
@dataclass(frozen=True)
class TreeLeaveOneOut:
    r"""Value of the node an edge leads to minus the mean value of its siblings, in a tree.

    The answers to a prompt are the leaves of a tree whose inner nodes are states that several of
    them share. A leaf is worth its reward and an inner node the mean of its children; then

    $$ A(c) = V(c) - \frac{1}{n-1} \sum_{c' \ne c} V(c') $$

    over the n children of one parent. A step in the middle of the tree is judged by all answers
    that grew from it, and compared with steps from the same state: no value network. An edge
    without siblings gets 0, and so does a leaf whose reward abstained; such a leaf is out of every
    mean. Samples that share an edge have the same advantage at its steps. No forward passes.

    Raises:
        UsageError: no steps were chosen, or the sampler lets no samples share any.

    References:
        d-TreeRPO, 2025 (arXiv:2512.09675).
    """

    needs_previews: ClassVar[bool] = False
    per_step: ClassVar[bool] = True
    needs_group: ClassVar[bool] = True
    needs_branches: ClassVar[bool] = True

    def __call__(
        self,
        rewards: Rewards,
        previews: Rewards | None,
        steps: Steps | None,
        rollout: Rollout,
        round: int,
    ) -> Tensor:
        """advantage_BA with A = K, float32, reward units; column k judges the edge of its start."""
        if steps is None:
            raise UsageError(
                "advantage tree_leave_one_out judges spans of denoising steps, and none were "
                "chosen; add `selector: {name: edges}` and likelihood denoising_steps"
            )
        reward_B1, counted_B1 = answer_rewards(rewards, rollout)
        advantage_BT = edge_advantages(
            reward_B1.squeeze(1), counted_B1.squeeze(1), first_sharers(rollout), rollout.group_B
        )
        start_BK = steps.start_BK.to(advantage_BT.device)
        advantage_BK = advantage_BT.gather(1, start_BK.clamp(max=rollout.num_steps - 1))
        return torch.where(start_BK < rollout.num_steps, advantage_BK, 0).float()


def edge_advantages(
    reward_B: Tensor, counted_B: Tensor, sharer_BT: Tensor, group_B: Tensor
) -> Tensor:
    """Advantage of the edge that holds each step, float64 (B, T).

    Args:
        reward_B: float64, of the leaves.
        counted_B: bool; the other leaves have no value.
        sharer_BT: the row that stands for all that share a step; see `branches.first_sharers`.
        group_B: prompt of each row, whose state before step 0 is the root.
    """
    value_BT, known_BT = _values(reward_B, counted_B, sharer_BT)
    starts_BT, row_B = edge_starts(sharer_BT), torch.arange(len(reward_B), device=reward_B.device)
    groups, parent_B = group_B.unique(return_inverse=True)
    first_P = row_B.new_full((len(groups),), len(row_B)).scatter_reduce(0, parent_B, row_B, "amin")
    parent_B, advantage_B = first_P[parent_B], torch.zeros_like(value_BT[:, 0])
    advantage_BT = torch.zeros_like(value_BT)
    for step in range(sharer_BT.shape[1]):
        # all children of a node start at one step; an edge keeps its advantage to its end
        value_B, starts_B = value_BT[:, step], starts_BT[:, step]
        known_B = known_BT[:, step] & starts_B
        sum_B, count_B = _over(known_B & (sharer_BT[:, step] == row_B), value_B, parent_B)
        gap_B = value_B - (sum_B - value_B) / (count_B - 1).clamp(min=1)
        gap_B = torch.where(known_B & (count_B >= 2), gap_B, 0)
        advantage_B = torch.where(starts_B, gap_B, advantage_B)
        advantage_BT[:, step], parent_B = advantage_B, sharer_BT[:, step]
    return advantage_BT


def _values(reward_B: Tensor, counted_B: Tensor, sharer_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Value of the node that each step leads to, float64, and where it has one; both (B, T)."""
    T, row_B = sharer_BT.shape[1], torch.arange(len(reward_B), device=reward_B.device)
    value_BT = reward_B.double().unsqueeze(1).repeat(1, T)
    known_BT = counted_B.unsqueeze(1).repeat(1, T)
    value_B, known_B, child_B = value_BT[:, -1], known_BT[:, -1], counted_B
    for step in range(T - 1, -1, -1):
        sum_B, count_B = _over(child_B, value_B, sharer_BT[:, step])
        value_B, known_B = sum_B / count_B.clamp(min=1), count_B > 0
        value_BT[:, step], known_BT[:, step] = value_B, known_B
        child_B = (sharer_BT[:, step] == row_B) & known_B
    return value_BT, known_BT


def _over(child_B: Tensor, value_B: Tensor, parent_B: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of the values of each row's parent's children, float64, and their number, int64."""
    kept_B = torch.where(child_B, value_B, 0)
    sum_B = torch.zeros_like(kept_B).index_add(0, parent_B, kept_B)
    count_B = torch.zeros_like(parent_B).index_add(0, parent_B, child_B.long())
    return sum_B[parent_B], count_B[parent_B]
