"""Selector of random denoising steps."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import best_steps, total_over_steps
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("random")
@dataclass(frozen=True)
class Random:
    """`steps` denoising steps of each sequence, drawn uniformly without replacement.

    Drawn among the steps that committed something, for every sequence on its own; column k is
    the k-th draw. A sequence with fewer such steps keeps them all, the other columns have
    weight 0.

    Args:
        steps: K, how many steps to keep per sequence, >= 1.
        rescale: give each kept step the weight M / K, M being the steps of the sequence that
            committed something: the expected sum over kept steps is then the sum over all.
            false = weight 1, steps are averaged.

    References:
        The random baseline of Kunde et al., 2026 (arXiv:2603.12554). Differs from its release in:
        that draws with replacement, once for all sequences, and always adds the last step. With
        `rescale`, the estimate of Zhan, 2025, AGRPO (arXiv:2510.04019).
    """

    steps: Annotated[int, Field(ge=1)] = 8
    rescale: bool = False

    state_only: ClassVar[bool] = True

    @property
    def unbiased(self) -> bool:
        """Weights make up for the steps that were left out, if rescaled."""
        return self.rescale

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps."""
        return min(self.steps, num_steps)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Row i depends on the key, `sample_B[i]` and which steps of row i are empty."""
        busy_BT = total_over_steps(rollout.answer_BL, rollout)[1] > 0
        priority_BT = key.uniform(rollout.sample_B, rollout.num_steps).to(busy_BT.device)
        chosen = best_steps(priority_BT, busy_BT, self.steps)
        if not self.rescale:
            return chosen
        kept_B1 = chosen.weight_BK.sum(1, keepdim=True).clamp(min=1)
        return replace(chosen, weight_BK=chosen.weight_BK * busy_BT.sum(1, keepdim=True) / kept_B1)
