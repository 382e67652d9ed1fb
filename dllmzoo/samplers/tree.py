"""Sampler whose answers to one prompt share the first steps: a tree of trajectories."""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy
from dllmzoo.records import Key, Prompts, Rollout
from dllmzoo.samplers._alike import first_alike
from dllmzoo.samplers._noise import KeyedNoise, Noise, Slots
from dllmzoo.samplers._semi_autoregressive import Walk
from dllmzoo.samplers.low_confidence import LowConfidence
from dllmzoo.zoo import SAMPLERS


@dataclass(frozen=True)
class BranchNoise:
    """Numbers of the branch that a row is on.

    Args:
        part_D: the numbers of each level; rows on one branch have the same.
        start_D: first step of each level.
    """

    part_D: tuple[KeyedNoise, ...]
    start_D: tuple[int, ...]

    def token(self, logits_SV: Tensor, temperature: float, at: Slots) -> Tensor:
        """token_S by inverse CDF."""
        return self._level(at).token(logits_SV, temperature, at)

    def priority(self, at: Slots) -> Tensor:
        """One number for each slot."""
        return self._level(at).priority(at)

    def _level(self, at: Slots) -> KeyedNoise:
        return self.part_D[sum(start <= at.step for start in self.start_D) - 1]


@SAMPLERS.register("tree")
@dataclass(frozen=True)
class Tree(LowConfidence):
    """Decoding of `low_confidence` in which the answers of a group share their first steps.

    The T steps are cut into as many equal spans as `branch` has levels. At the start of span d
    every branch splits into `branch[d]`, which differ by sampling noise alone and go on from the
    state where it stood; the leaves are the answers of the group, so `train.group_size` is the
    product of all branches. A shared step runs once for the rows of a sampler call: with [4, 4]
    and T = 128, 4 * 64 + 16 * 64 forwards for 16 answers instead of 16 * 128. Where a call holds
    part of a group only (`train.rollout_batch`), the shared steps run again, with the same result.

    `Rollout.branch_BT` says which rows share a step: the number of a branch is the smallest sample
    among its leaves. Rows of a smaller group, as in evaluation, walk alone.

    Args:
        branch: children of every branch at the start of each span, at least one level, each >= 1.

    References:
        d-TreeRPO, 2025 (arXiv:2512.09675), whose tree is [4, 4]. Differs from it in: any number of
        levels and children, and steps that the levels need not divide.
    """

    branch: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] = (4, 4)

    def __post_init__(self) -> None:
        """Refuse fewer steps than levels, then whatever the base refuses."""
        super().__post_init__()
        if self.num_steps < len(self.branch):
            raise UsageError(
                f"branch {list(self.branch)} splits the steps into {len(self.branch)} spans, and "
                f"there are {self.num_steps} steps; use steps: {len(self.branch)} or more, or "
                f"fewer levels"
            )

    @property
    def group_size(self) -> int:
        """G, the number of leaves."""
        return math.prod(self.branch)

    @property
    def num_forwards(self) -> int:
        """Model rows that one sample costs at most, its share of what the group shares."""
        plan, rows = self._plan(), 0
        for level, span in enumerate(self._spans):
            steps = sum(plan[step][1] != 0 for step in span)
            rows += steps * math.prod(self.branch[: level + 1])
        return -(-rows // self.group_size) * (2 if self.cfg_scale > 0 else 1)

    @torch.no_grad()
    def __call__(
        self, policy: Policy, prompts: Prompts, key: Key, noise: Noise | None = None,
        width: int | None = None,
    ) -> Rollout:  # fmt: skip
        """Answers of every row, and which rows share which steps; see the base."""
        rollout = super().__call__(policy, prompts, key, noise, width)
        branch_TB = [
            self._branch(rollout.sample_B, level)
            for level, span in enumerate(self._spans)
            for _ in span
        ]
        return replace(rollout, branch_BT=torch.stack(branch_TB, 1))

    def _noise(self, key: Key, prompts: Prompts, device: torch.device) -> Noise:
        shape = (self.num_steps, self.answer_length)
        part_D = tuple(
            KeyedNoise(key, self._branch(prompts.sample_B, level), *shape, device)
            for level in range(len(self.branch))
        )
        return BranchNoise(part_D, tuple(span.start for span in self._spans))

    def _fill(self, walk: Walk, prompts: Prompts) -> None:
        """One row of each branch takes the steps of a span; then all of its rows stand there."""
        canvas = walk.canvas
        for level, span in enumerate(self._spans):
            pair_B2 = torch.stack([prompts.group_B, self._branch(prompts.sample_B, level)], 1)
            source_B = first_alike(pair_B2.to(canvas.hidden_BN.device))
            rows = source_B.unique()
            if self.threshold is not None or self.stop_at_end:
                rows = rows[canvas.running_B[rows]]
            self._take_steps(walk, rows, span)
            canvas.copy_rows(source_B)

    @property
    def _spans(self) -> list[range]:
        """The steps of each level; they need not divide."""
        T, D = self.num_steps, len(self.branch)
        return [range(T * level // D, T * (level + 1) // D) for level in range(D)]

    def _branch(self, sample_B: Tensor, level: int) -> Tensor:
        """The smallest sample of the branch that each sample is on in a span."""
        leaves = math.prod(self.branch[level + 1 :])
        within_B = sample_B % self.group_size
        return sample_B - within_B % leaves
