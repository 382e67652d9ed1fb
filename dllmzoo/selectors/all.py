"""Selector that keeps every denoising step."""

from dataclasses import dataclass

import torch

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import mean_over_steps, single_steps
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("all")
@dataclass(frozen=True)
class All:
    """Every denoising step, in the order of time.

    The full sum of the policy gradient: T scored states per sequence, so T / K times the cost of
    a selector that keeps K. A step that committed nothing has weight 0.
    """

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps: all of them."""
        return num_steps

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is step k; the key is not read."""
        _, count_BT = mean_over_steps(rollout.entropy_BL, rollout)
        step_BT = torch.arange(rollout.num_steps, device=count_BT.device).expand_as(count_BT)
        return single_steps(step_BT, count_BT > 0, rollout.num_steps)
