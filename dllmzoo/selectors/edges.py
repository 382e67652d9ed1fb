"""Selector of the edges of a tree of answers."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from dllmzoo.branches import edge_starts, first_sharers
from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import spans
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("edges", aliases=("tree_edges",))
@dataclass(frozen=True)
class Edges:
    """Every edge of a tree of answers once, as the span of denoising steps it stands for.

    Column d is a sample's d-th span of steps that the same samples share: from one branching of
    the tree to the next. It is scored from the state at the branching, so its later tokens see a
    staler canvas than they were sampled from. Samples that share an edge share its state and its
    tokens; the edge has weight 1 in the smallest of them and 0 in the others, which gives the
    gradient of weights 1 / (samples that share it) at a fraction of the views: a tree of L leaves
    has at most 2 L - 2 edges. With `only_valid` an edge ends where the answer of that sample does.

    Raises:
        UsageError: the sampler lets no samples share steps.

    References:
        d-TreeRPO, 2025 (arXiv:2512.09675).
    """

    needs_branches: ClassVar[bool] = True

    def num_selected(self, num_steps: int) -> int:
        """Views of a sample for a rollout of `num_steps` steps: on average at most two."""
        return min(2, num_steps)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column d is the edge at depth d; the key is not read."""
        sharer_BT = first_sharers(rollout)
        depth_BT = edge_starts(sharer_BT).long().cumsum(1) - 1
        found = spans(depth_BT, int(depth_BT.max()) + 1, rollout)
        sharer_BK = sharer_BT.gather(1, found.start_BK.clamp(max=rollout.num_steps - 1))
        row_B1 = torch.arange(len(sharer_BT), device=sharer_BT.device).unsqueeze(1)
        return Steps(found.start_BK, found.stop_BK, found.weight_BK * (sharer_BK == row_B1))
