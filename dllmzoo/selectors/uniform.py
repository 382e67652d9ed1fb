"""Selector of denoising steps at even distances."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import busy_steps, single_steps
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("uniform")
@dataclass(frozen=True)
class Uniform:
    r"""`steps` denoising steps at even distances, the same for every sequence, in time order.

    The time axis is cut into K equal parts and the step in the middle of each is kept: column k
    is step $\lfloor (k + 1/2)\, T / K \rfloor$. A chosen step that committed nothing in a
    sequence has weight 0 there: no other step takes its place.

    Args:
        steps: K, how many steps to keep, >= 1; at most T are distinct, further columns have
            weight 0.
        force_last: keep the last step, and K - 1 at even distances from the first step to the
            last but one.

    References:
        The uniform baseline of Kunde et al., 2026 (arXiv:2603.12554). Differs from its release
        in: that is `force_last: true`.
    """

    steps: Annotated[int, Field(ge=1)] = 8
    force_last: bool = False

    state_only: ClassVar[bool] = True
    exempt: ClassVar[dict[str, str]] = {
        "first_choice_first": "even distances move every column when K changes"
    }

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps."""
        return min(self.steps, num_steps)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is the k-th step in time; the key is not read."""
        busy_BT = busy_steps(rollout)
        step_K = torch.tensor(self._chosen(rollout.num_steps), device=busy_BT.device)
        return single_steps(step_K.expand(len(busy_BT), -1), busy_BT, self.steps)

    def _chosen(self, T: int) -> list[int]:
        K = self.num_selected(T)
        if not self.force_last:
            return [(2 * k + 1) * T // (2 * K) for k in range(K)]
        return [k * (T - 2) // max(K - 2, 1) for k in range(K - 1)] + [T - 1]
