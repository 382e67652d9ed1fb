"""Selector of the denoising steps with the largest credit or blame."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import best_steps, busy_steps, ranked_steps, single_steps
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("top_advantage", aliases=("top_abs_adv",))
@dataclass(frozen=True)
class TopAdvantage:
    r"""The `steps` denoising steps of largest $|A_s|$, largest first.

    Where every step has an advantage of its own, those near 0 change nothing and need not be
    scored. The advantages of all T steps are computed first, from the proposals that the sampler
    stored: T rewards a sample, no extra forward. Equal ones rank by time, so an advantage that is
    the same for all steps keeps the first K. The choice looks at what came later: the gradient is
    a biased truncation, as with `entropy`.

    Args:
        steps: K, how many steps to keep per sequence, >= 1. A sequence with fewer steps that did
            something keeps those; the other columns have weight 0.
        common: one choice for all samples of a prompt, by the sum of their $|A_s|$; a step at
            which a sample did nothing has weight 0 in it.

    References:
        He et al., 2025, MDPO (arXiv:2508.13148): 8 steps. Its release ranks by the samples of one
        device, which holds one sample.
    """

    steps: Annotated[int, Field(ge=1)] = 8
    common: bool = False

    needs_advantage: ClassVar[bool] = True

    @property
    def by_group(self) -> bool:
        """Whether a row's steps depend on the other samples of its prompt."""
        return self.common

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps."""
        return min(self.steps, num_steps)

    def __call__(self, rollout: Rollout, key: Key, advantage_BT: Tensor) -> Steps:
        """Column k is the step of k-th largest absolute advantage; the key is not read."""
        busy_BT = busy_steps(rollout)
        size_BT = torch.where(busy_BT, advantage_BT.abs().double(), 0)
        if not self.common:
            return best_steps(size_BT, busy_BT, self.steps)
        groups, group_B = rollout.group_B.unique(return_inverse=True)
        zero_PT = size_BT.new_zeros(len(groups), rollout.num_steps)
        sum_BT = zero_PT.index_add(0, group_B, size_BT)[group_B]
        usable_BT = zero_PT.index_add(0, group_B, busy_BT.double())[group_B] > 0
        chosen_BK = ranked_steps(sum_BT, usable_BT)[:, : self.steps]
        return single_steps(chosen_BK, busy_BT, self.steps)
