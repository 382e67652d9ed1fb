"""Selector that draws denoising steps by their entropy and weighs them back."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import Over, single_steps, step_entropies
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("entropy_sampled")
@dataclass(frozen=True)
class EntropySampled:
    r"""`steps` denoising steps drawn in proportion to their entropy, with importance weights.

    K draws with replacement among the M steps of a sequence that committed something,

    $$ q_s = (1-f)\, \frac{H_s}{\sum_u H_u} + \frac{f}{M}, \qquad w_s = \frac{1}{K q_s}, $$

    so that the weighted sum over the draws is, given the trajectory, an unbiased estimate of the
    sum over all M steps: where `entropy` cuts the sum off, this one keeps its mean at the price
    of variance. Each draw is a column of its own, also where a step is drawn twice;
    it is no entropy rank, so a stepwise baseline wants `centre: step`.

    The weights multiply a step's *term* in the loss, so what is unbiased in the end is up to the
    normaliser of that loss. `group` and `fixed` divide by the same number whatever was drawn (so
    does `nonzero`, with one advantage for all steps): the expected gradient is that of selector
    `all`. `unit`, `row`, `sequence` and `step` divide by the K draws of a sequence, which leaves
    1 / K of the sum as a constant factor. `token` divides by the tokens of the steps that were
    drawn, a number that varies with the draw, and with `denoising_steps: {unit: slot}` so do
    those four, since a step drawn twice is then one set of units: no longer unbiased, though the
    bias vanishes as a batch grows.

    Args:
        steps: K, draws per sequence, >= 1; each is a view.
        floor: f, in (0, 1], share of the draws that ignores entropy: it bounds every weight by
            M / (f K). 1 draws uniformly.
        over: what a step's entropy is taken over: `committed_mean` and `committed_sum`, the slots
            it committed; `block_mean`, all slots still masked in the active block.

    References:
        No paper; the unbiased counterpart of the choice of Kunde et al., 2026 (arXiv:2603.12554).
    """

    steps: Annotated[int, Field(ge=1)] = 8
    floor: Annotated[float, Field(gt=0, le=1)] = 0.1
    over: Over = "committed_mean"

    unbiased: ClassVar[bool] = True
    exempt: ClassVar[dict[str, str]] = {
        "distinct": "steps are drawn with replacement",
        "all_when_k_is_t": "T draws with replacement need not meet every step",
    }

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps: every draw is a view."""
        return self.steps

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is the k-th draw; row i depends on the key, `sample_B[i]` and row i alone."""
        prob_BT = self.probabilities(rollout)
        uniform_BK = key.uniform(rollout.sample_B, self.steps).to(prob_BT).contiguous()
        chosen_BK = torch.searchsorted(prob_BT.cumsum(1), uniform_BK, right=True)
        step_T = torch.arange(rollout.num_steps, device=prob_BT.device)
        last_B1 = torch.where(prob_BT > 0, step_T, 0).amax(1, keepdim=True)
        chosen_BK = torch.minimum(chosen_BK, last_B1)  # the sum of a row may round to below 1
        found = single_steps(chosen_BK, prob_BT > 0, self.steps)
        drawn_BK = prob_BT.gather(1, chosen_BK)
        weight_BK = torch.where(drawn_BK > 0, 1 / (self.steps * drawn_BK), 0)
        return Steps(found.start_BK, found.stop_BK, weight_BK.float())

    def probabilities(self, rollout: Rollout) -> Tensor:
        """q_BT, float64, summing to 1 over the steps that committed something; 0 elsewhere."""
        entropy_BT, count_BT = step_entropies(rollout, self.over)
        busy_BT = count_BT > 0
        entropy_BT = torch.where(busy_BT, entropy_BT.double(), 0).clamp(min=0)
        even_BT = busy_BT.double() / busy_BT.sum(1, keepdim=True).clamp(min=1)
        total_B1 = entropy_BT.sum(1, keepdim=True)
        share_BT = torch.where(total_B1 > 0, entropy_BT / total_B1, even_BT)
        return (1 - self.floor) * share_BT + self.floor * even_BT
