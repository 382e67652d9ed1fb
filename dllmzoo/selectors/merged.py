"""Selector that merges consecutive denoising steps into spans."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import spans, total_over_steps
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("merged")
@dataclass(frozen=True)
class Merged:
    """Every denoising step, with `every` consecutive ones merged into one span.

    A span is scored from the state before its first step, so its later tokens see a staler
    canvas than they were sampled from: exact for `every: 1`, a surrogate at 1 / `every` of the
    cost beyond. Only steps that committed something are counted, from the first one on; the last
    span of a sequence may hold fewer. Sequences with fewer spans leave columns with weight 0.

    Args:
        every: m, steps of a span, >= 1.

    References:
        The shrinking of traces in Wang et al., 2025, TraceRL (arXiv:2509.06949): 8 for models
        with full attention.
    """

    every: Annotated[int, Field(ge=1)] = 8

    state_only: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps."""
        return -(-num_steps // self.every)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is the k-th span in time; the key is not read."""
        busy_BT = total_over_steps(rollout.answer_BL, rollout)[1] > 0
        K = self.num_selected(rollout.num_steps)
        column_BT = torch.where(busy_BT, (busy_BT.cumsum(1) - 1) // self.every, K)
        return spans(column_BT, K, rollout)
