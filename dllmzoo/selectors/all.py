"""Selector that keeps every denoising step."""

from dataclasses import dataclass
from typing import ClassVar

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import busy_steps, every_step
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("all")
@dataclass(frozen=True)
class All:
    """Every denoising step, in the order of time.

    The full sum of the policy gradient: T scored states per sequence, so T / K times the cost of
    a selector that keeps K. A step that committed nothing has weight 0.
    """

    state_only: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps: all of them."""
        return num_steps

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is step k; the key is not read."""
        return every_step(busy_steps(rollout))
