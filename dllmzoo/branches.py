"""Who shares denoising steps with whom, where the samples of a prompt grow from one tree."""

from __future__ import annotations

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.records import Rollout


def first_sharers(rollout: Rollout) -> Tensor:
    """Row of the smallest sample that shares each step with a row, int64 (B, T).

    Rows of one prompt share a step where their `branch_BT` is equal at that step; a row that
    shares a step with nobody stands for itself. Which numbers stand in `branch_BT` does not
    matter.

    Raises:
        UsageError: the rollout says of no step that it is shared.
    """
    if rollout.branch_BT is None:
        raise UsageError(
            "the answers grew apart from the start, so no samples share denoising steps; use "
            "`sampler: {name: tree, ...}`"
        )
    branch_BT = rollout.branch_BT.unique(return_inverse=True)[1]
    group_B1 = rollout.group_B.unique(return_inverse=True)[1].unsqueeze(1)
    node_BT = group_B1 * (int(branch_BT.max()) + 1) + branch_BT
    nodes, node_BT = node_BT.unique(return_inverse=True)
    row_B = rollout.sample_B.argsort(stable=True)  # by sample
    rank_BT = row_B.argsort().unsqueeze(1).expand_as(node_BT)
    lowest = rank_BT.new_full((len(nodes), node_BT.shape[1]), len(row_B))
    lowest = lowest.scatter_reduce(0, node_BT, rank_BT, "amin")
    return row_B[lowest.gather(0, node_BT)]


def num_sharers(sharer_BT: Tensor) -> Tensor:
    """How many rows share each step with a row, itself included, int64 (B, T)."""
    one_BT = torch.ones_like(sharer_BT)
    return torch.zeros_like(one_BT).scatter_add(0, sharer_BT, one_BT).gather(0, sharer_BT)


def edge_starts(sharer_BT: Tensor) -> Tensor:
    """Bool (B, T): step 0, and steps shared with fewer rows than the one before: a branching."""
    count_BT = num_sharers(sharer_BT)
    starts_BT = torch.ones_like(count_BT, dtype=torch.bool)
    starts_BT[:, 1:] = count_BT[:, 1:] != count_BT[:, :-1]
    return starts_BT
