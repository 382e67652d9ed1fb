"""Signed softmax weights: how good an answer is minus how bad it is."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from dllmzoo.advantages._group import answer_rewards, centred, group_softmax, grouped
from dllmzoo.records import Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES


@ADVANTAGES.register("wd1")
@dataclass(frozen=True)
class Wd1:
    r"""Softmax weight of the advantage minus softmax weight of its opposite, in the group.

    $$ w_i = \mathrm{softmax}_i(A / \tau) - \mathrm{softmax}_i(-A / \tau),
       \qquad A_i = r_i - \bar r $$

    Weights lie between -1 and 1 and add up to 0 over a group, so large rewards cannot blow up an
    update; with loss `policy_gradient` and `normaliser: group` this is the ratio-free objective
    of wd1, which sums over a group. Equal rewards give exactly 0. Samples whose reward abstained
    are left out and get 0; so does every sample of a group with fewer than two counted ones. No
    forward passes.

    Args:
        temperature: tau, > 0, reward units; a large one makes the weights proportional to A.
        positive_only: the first term alone: weights that add up to 1, and push up every answer.

    References:
        Tang et al., 2025, wd1 (arXiv:2507.08838), at temperature 1. Differs from its release in:
        the softmax is over the prompt's group, whatever the size of a micro-batch.
    """

    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    positive_only: bool = False

    needs_previews: ClassVar[bool] = False
    per_step: ClassVar[bool] = False
    needs_group: ClassVar[bool] = True
    exempt: ClassVar[dict[str, str]] = {
        "equal_rewards_give_zero if positive_only=true": "weights are a softmax and add up to 1",
        "groups_sum_to_zero if positive_only=true": "weights are a softmax and add up to 1",
        "scale": "a softmax sharpens with the size of the rewards",
    }

    def __call__(
        self,
        rewards: Rewards,
        previews: Rewards | None,
        steps: Steps | None,
        rollout: Rollout,
        round: int,
    ) -> Tensor:
        """advantage_BA with A = 1, float32, in [-1, 1]; dimensionless."""
        reward_B1, counted_B1 = answer_rewards(rewards, rollout)
        counted_B1 = grouped(counted_B1, rollout.group_B)
        gap_B1 = centred(reward_B1, counted_B1, rollout.group_B) / self.temperature
        weight_B1 = group_softmax(gap_B1, counted_B1, rollout.group_B)
        if not self.positive_only:
            weight_B1 = weight_B1 - group_softmax(-gap_B1, counted_B1, rollout.group_B)
        return weight_B1.float()
