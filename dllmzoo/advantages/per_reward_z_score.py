"""Each component of the reward standardised in its group, then added up."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from dllmzoo.advantages._group import ADDED, answer_rewards, centred, group_std
from dllmzoo.errors import UsageError
from dllmzoo.records import VALUE, Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES


@ADVANTAGES.register("per_reward_z_score")
@dataclass(frozen=True)
class PerRewardZScore:
    r"""The z-scores of the components of the reward, each in its group, as a weighted sum.

    $$ A_i = \sum_c w_c\, \frac{r_{i,c} - \bar r_c}{\sigma_c + 10^{-4}} $$

    with the group's sample standard deviation. A component of small values then counts as much
    as one of large values, and two samples that differ in one component only stay apart where
    their totals happen to be equal. The task's own weights are not applied: after
    standardisation the scale of a component is gone, and what is left to choose is how much it
    matters.

    A component that has no value for a sample is out of that component's statistics and adds
    nothing to that sample. Samples whose whole reward abstained get 0; so does a component with
    fewer than two values in the group. No forward passes.

    Args:
        weights: component -> w, any number; components that are not named have 1.

    Raises:
        UsageError: a weight names no component of the task.

    References:
        Liu et al., 2026, GDPO for several rewards (arXiv:2601.05242), as TRL has it (normalise,
        then sum). Differs from it in: no second normalisation over the batch.
    """

    weights: dict[str, float] = field(default_factory=dict)

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
        """advantage_BA with A = 1, float32, weighted standard deviations."""
        unknown = sorted(set(self.weights) - set(rewards.names))
        if unknown:
            raise UsageError(
                f"advantage per_reward_z_score weighs {', '.join(unknown)}, and the components of "
                f"the task's reward are: {', '.join(rewards.names)}"
            )
        group_B = rollout.group_B
        _, counted_B1 = answer_rewards(rewards, rollout)
        part_BC = rewards.part_XC.to(group_B.device).double()
        valued_BC = (rewards.outcome_XC.to(group_B.device) == VALUE) & counted_B1
        gap_BC = centred(part_BC, valued_BC, group_B)
        score_BC = gap_BC / (group_std(part_BC, valued_BC, group_B) + ADDED)
        weight_C = [self.weights.get(name, 1.0) for name in rewards.names]
        return (score_BC * torch.tensor(weight_C).to(score_BC)).sum(1, keepdim=True).float()
