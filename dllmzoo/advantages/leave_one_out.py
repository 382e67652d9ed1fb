"""Reward minus the mean reward of the other samples of the prompt."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dllmzoo.advantages._group import baselined
from dllmzoo.records import Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES


@ADVANTAGES.register("leave_one_out", aliases=("rloo", "loo"))
@dataclass(frozen=True)
class LeaveOneOut:
    r"""Reward minus the mean reward of the *other* samples of the same prompt.

    $$ A_i = r_i - \tfrac{1}{G-1} \sum_{j \ne i} r_j = \tfrac{G}{G-1} (r_i - \bar r) $$

    The baseline does not depend on the sample it judges, so the policy gradient stays unbiased,
    its scale included. Samples whose reward abstained are out of the mean and get 0; so does
    every sample of a group with fewer than two counted ones. No forward passes.

    Args:
        scale_by_std: divide by the group's sample standard deviation plus 1e-4.

    References:
        Ahmadian et al., 2024, RLOO (arXiv:2402.14740), without its KL inside the reward.
    """

    scale_by_std: bool = False

    needs_previews: ClassVar[bool] = False
    per_step: ClassVar[bool] = False
    needs_group: ClassVar[bool] = True

    def __call__(
        self,
        rewards: Rewards,
        previews: Rewards | None,
        steps: Steps | None,
        rollout: Rollout,
        round: int,
    ) -> Tensor:
        """advantage_BA with A = 1, float32, reward units; standard deviations if scaled."""
        return baselined(rewards, rollout, others=True, scale_by_std=self.scale_by_std)
