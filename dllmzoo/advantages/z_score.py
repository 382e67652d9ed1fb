"""Reward minus its group's mean, in standard deviations."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.advantages._group import ADDED, answer_rewards, centred, group_std
from dllmzoo.advantages._processes import every_process
from dllmzoo.records import Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES


@ADVANTAGES.register("z_score")
@dataclass(frozen=True)
class ZScore:
    r"""Reward minus the mean of the prompt's samples, divided by a standard deviation.

    $$ A_i = \frac{r_i - \bar r}{\sigma + \epsilon} $$

    Every prompt then pulls about equally hard, whatever the spread of its rewards, which favours
    prompts that are almost always or almost never solved. Equal rewards give exactly 0. Samples
    whose reward abstained are out of both statistics and get 0; so does every sample of a group
    with fewer than two counted ones. No forward passes.

    Args:
        std: `sample` divides the squares by n - 1, `population` by n.
        added: epsilon, >= 0, added to the deviation.
        floor: > 0, the deviation is never taken to be less, and nothing is added to it; null =
            `added` instead.
        scope: whose deviation: of the `group`, or of all counted rewards of the round (`batch`),
            on all processes, about their common mean.

    References:
        Shao et al., 2024 (arXiv:2402.03300), with `added: 1e-4`. `population` is that of Wang et
        al., 2025, TraceRL (arXiv:2509.06949); `floor: 0.01` that of RLDF, 2026
        (arXiv:2605.25638); `batch` an option of TRL.
    """

    std: Literal["sample", "population"] = "sample"
    added: Annotated[float, Field(ge=0, allow_inf_nan=False)] = ADDED
    floor: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    scope: Literal["group", "batch"] = "group"

    needs_previews: ClassVar[bool] = False
    per_step: ClassVar[bool] = False
    needs_group: ClassVar[bool] = True

    @property
    def compares_groups(self) -> bool:
        """Whether a group's advantages depend on the other groups of the round."""
        return self.scope == "batch"

    def __call__(
        self,
        rewards: Rewards,
        previews: Rewards | None,
        steps: Steps | None,
        rollout: Rollout,
        round: int,
    ) -> Tensor:
        """advantage_BA with A = 1, float32, standard deviations."""
        reward_B1, counted_B1 = answer_rewards(rewards, rollout)
        gap_B1 = centred(reward_B1, counted_B1, rollout.group_B)
        std_B1 = self._std(reward_B1, counted_B1, rollout.group_B)
        divisor_B1 = std_B1 + self.added if self.floor is None else std_B1.clamp(min=self.floor)
        return torch.where(gap_B1 == 0, 0, gap_B1 / divisor_B1).float()

    def _std(self, reward_B1: Tensor, counted_B1: Tensor, group_B: Tensor) -> Tensor:
        population = self.std == "population"
        if self.scope == "group":
            return group_std(reward_B1, counted_B1, group_B, population=population)
        facts = every_process(torch.cat([reward_B1, counted_B1.double()], 1))
        reward_X1, counted_X1 = facts[:, :1], facts[:, 1:] > 0
        one_X = torch.zeros(len(facts), dtype=torch.long, device=facts.device)
        std_X1 = group_std(reward_X1, counted_X1, one_X, population=population)
        return std_X1[:1].expand_as(reward_B1)
