"""Selector of the most uncertain denoising steps."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import Over, best_steps, step_entropies, total_over_steps
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("entropy", aliases=("top_entropy",))
@dataclass(frozen=True)
class Entropy:
    r"""The `steps` denoising steps of highest entropy, most uncertain first.

    Entropy bounds how much a step can add to the policy gradient, so the K most uncertain steps
    stand for the sum over all T at K / T of its cost. Column k is entropy rank k, which the
    stepwise baseline relies on; equal entropies rank by time. Looking at the whole trajectory
    makes the choice depend on the actions: a biased truncation of low variance.

    $$ H_s = \frac{1}{|U_s|} \sum_{i \in U_s} h_{s,i}, \qquad
       h_{s,i} = -\sum_v p_v \log p_v \text{ at temperature 1} $$

    Args:
        steps: K, how many steps to keep per sequence, >= 1. A sequence with fewer steps that
            committed something keeps those; the other columns have weight 0.
        over: what a step's entropy is taken over: `committed_mean` and `committed_sum`, the slots
            it committed; `block_mean`, all slots still masked in the active block, so that
            a state's entropy does not depend on the action.
        until_last_non_end: leave out the steps after the last one that committed a token of the
            text itself: no end token and nothing behind the first end token. A sequence without
            any text keeps all its steps.

    References:
        Kunde et al., 2026 (arXiv:2603.12554). Steps are averaged, not rescaled by T / K. Differs
        from the release in: sequences may commit different numbers of tokens at a step.
    """

    steps: Annotated[int, Field(ge=1)] = 8
    over: Over = "committed_mean"
    until_last_non_end: bool = False

    exempt: ClassVar[dict[str, str]] = {
        "all_when_k_is_t if until_last_non_end=true": "it leaves out steps behind the end of text"
    }

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps."""
        return min(self.steps, num_steps)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is the k-th most uncertain step of each row; the key is not read."""
        entropy_BT, count_BT = step_entropies(rollout, self.over)
        usable_BT = count_BT > 0
        if self.until_last_non_end:
            usable_BT = usable_BT & _until_last_text(rollout)
        return best_steps(entropy_BT, usable_BT, self.steps)


def _until_last_text(rollout: Rollout) -> Tensor:
    """Bool (B, T): steps with a commit of the text itself at or after them."""
    ended_B1 = (rollout.valid_BL.sum(1) < rollout.answer_BL.sum(1)).unsqueeze(1)
    slot_L = torch.arange(rollout.valid_BL.shape[1], device=rollout.valid_BL.device)
    last_B1 = torch.where(rollout.valid_BL, slot_L, -1).amax(1, keepdim=True)
    text_BL = rollout.valid_BL & ~(ended_B1 & (slot_L == last_B1))
    text_BT = total_over_steps(text_BL, rollout)[0] > 0
    still_to_come_BT = text_BT.flip(1).long().cumsum(1).flip(1) > 0
    return still_to_come_BT | ~text_BT.any(1, keepdim=True)
