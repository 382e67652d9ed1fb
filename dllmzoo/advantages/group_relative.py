"""Reward minus the mean reward of the prompt's samples."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dllmzoo.advantages._group import baselined
from dllmzoo.records import Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES


@ADVANTAGES.register("group_relative", aliases=("grpo", "mean"))
@dataclass(frozen=True)
class GroupRelative:
    r"""Reward minus the mean reward of the samples of the same prompt.

    $$ A_i = r_i - \bar r, \qquad \bar r = \tfrac1G \sum_j r_j $$

    The mean includes the sample itself, which shrinks the expected gradient by (G-1)/G and adds
    no other bias. Samples whose reward abstained are out of the mean and get 0; so does every
    sample of a group with fewer than two counted ones. No forward passes.

    Args:
        scale_by_std: divide by the group's sample standard deviation plus 1e-4, as GRPO first
            did; it favours prompts that are almost always or almost never solved.

    References:
        Shao et al., 2024 (arXiv:2402.03300), without the division by default, as argued by Liu
        et al., 2025 (arXiv:2503.20783) and done by d1 (arXiv:2504.12216).
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
        return baselined(rewards, rollout, others=False, scale_by_std=self.scale_by_std)
