"""Selector of random denoising steps."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import best_steps, mean_over_steps
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("random")
@dataclass(frozen=True)
class Random:
    """`steps` denoising steps of each sequence, drawn uniformly without replacement.

    Drawn among the steps that committed something, for every sequence on its own; column k is
    the k-th draw. A sequence with fewer such steps keeps them all, the other columns have
    weight 0. Steps are averaged, not rescaled by T / K.

    Args:
        steps: K, how many steps to keep per sequence, >= 1.

    References:
        The random baseline of Kunde et al., 2026 (arXiv:2603.12554). Differs from its release in:
        that draws with replacement, once for all sequences, and always adds the last step.
    """

    steps: Annotated[int, Field(ge=1)] = 8

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps."""
        return min(self.steps, num_steps)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Row i depends on the key, `sample_B[i]` and which steps of row i are empty."""
        _, count_BT = mean_over_steps(rollout.entropy_BL, rollout)
        priority_BT = key.uniform(rollout.sample_B, rollout.num_steps).to(count_BT.device)
        return best_steps(priority_BT, count_BT > 0, self.steps)
