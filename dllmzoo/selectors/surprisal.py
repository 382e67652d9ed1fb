"""Selector that draws denoising steps by how unlikely their tokens were."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import best_steps, total_over_steps
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("surprisal")
@dataclass(frozen=True)
class Surprisal:
    r"""`steps` denoising steps drawn without replacement, surprising ones more often.

    A step is drawn with probability proportional to $\exp(w_s / \tau)$ among those not drawn
    yet, where $w_s$ is the mean of $-\log p$ over the tokens of the text that it committed, $p$
    being the law they were sampled from. No weight makes up for the choice: the objective is
    another one than the sum over all steps, not an estimate of it.

    Steps that committed nothing but slots behind the end of the text are no candidates. A
    sequence with fewer candidates keeps them all, and the other columns have weight 0.

    Args:
        steps: K, how many steps to keep per sequence, >= 1.
        temperature: tau, nats, >= 0; 0 takes the K most surprising steps, a large value draws
            uniformly.

    References:
        RLDF, 2026 (arXiv:2605.25638): 4 steps, temperature 1. Differs from its release in: that
        fills missing columns with steps drawn already, so that they count twice.
    """

    steps: Annotated[int, Field(ge=1)] = 4
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0

    exempt: ClassVar[dict[str, str]] = {
        "all_when_k_is_t": "steps that committed nothing of the text are left out"
    }

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps."""
        return min(self.steps, num_steps)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is the k-th draw; row i depends on the key, `sample_B[i]` and row i alone."""
        text_BT = total_over_steps(rollout.valid_BL, rollout)[0]
        nats_BL = torch.where(rollout.valid_BL, -rollout.logprob_BL, 0)
        surprisal_BT = total_over_steps(nats_BL, rollout)[0] / text_BT.clamp(min=1)
        if self.temperature > 0:
            uniform_BT = key.uniform(rollout.sample_B, rollout.num_steps).to(surprisal_BT)
            # u is a multiple of 2^-24 below 1: half a step keeps both logarithms finite
            gumbel_BT = -(-(uniform_BT + 2**-25).log()).log()
            surprisal_BT = surprisal_BT / self.temperature + gumbel_BT
        return best_steps(surprisal_BT, text_BT > 0, self.steps)
