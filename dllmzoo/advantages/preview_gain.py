"""Credit of each denoising step from the rewards of all intermediate proposals."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dllmzoo.advantages._group import ADDED, answer_rewards, centred, group_std
from dllmzoo.errors import UsageError
from dllmzoo.records import Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES


@ADVANTAGES.register("preview_gain", aliases=("mdpo",))
@dataclass(frozen=True)
class PreviewGain:
    r"""What a step's proposal gains over the last one, plus how later ones fare, as z-score.

    Before every step the network proposes a whole answer, and each proposal is rewarded:

    $$ a_s = (r_s - r_{s-1}) + \frac{1}{T-1-s} \sum_{u > s} r_u, \qquad r_{-1} = 0, $$

    with $r_{T-1}$ in place of the mean at the last step. A step that finds the answer keeps its
    gain even if a later one loses it, and the one that loses it is blamed. The scores of the
    samples of a prompt are standardised at each step: minus their mean, divided by their sample
    standard deviation plus 1e-4. Costs T rewards a sample, and no forward where the sampler
    stored its proposals; they are then what was sampled, else the most probable tokens.

    Samples whose final reward abstained are out of the statistics and get 0. A proposal whose
    reward abstained, and a step at which nothing was proposed, gets 0; gains and means are then
    taken over the others.

    Raises:
        UsageError: proposals are missing, or their columns are not all T steps in time order.

    References:
        He et al., 2025, MDPO (arXiv:2508.13148). Its release adds a constant to every score,
        which the group's mean takes out again.
    """

    needs_previews: ClassVar[bool] = True
    per_step: ClassVar[bool] = True
    needs_group: ClassVar[bool] = True
    needs_every_step: ClassVar[bool] = True

    def __call__(
        self,
        rewards: Rewards,
        previews: Rewards | None,
        steps: Steps | None,
        rollout: Rollout,
        round: int,
    ) -> Tensor:
        """advantage_BA with A = T, float32, standard deviations; column s judges step s."""
        B, T = len(rollout.group_B), rollout.num_steps
        device = rollout.group_B.device
        if previews is None or steps is None:
            raise UsageError(
                "advantage preview_gain rewards the proposals of every step, and they are missing; "
                "use it with selector top_advantage, or all, and a likelihood of denoising steps"
            )
        start_BK = steps.start_BK.to(device)
        in_order = start_BK.shape == (B, T) and bool(
            (start_BK == start_BK.new_tensor(range(T))).all()
        )
        if not in_order or previews.total_X.numel() != B * T:
            raise UsageError(
                f"advantage preview_gain compares each of the {T} steps with the one before, and "
                f"got {start_BK.shape[1]} chosen steps and {previews.total_X.numel()} rewarded "
                f"proposals for {B} samples; use selector top_advantage, or all"
            )
        _, counted_B1 = answer_rewards(rewards, rollout)
        known_BT = previews.counted_X.to(device).view(B, T) & counted_B1
        if rollout.draft_BTN is None:
            known_BT = known_BT & (steps.weight_BK.to(device) > 0)
        # float32, so that sums over a group are exact and equal scores give exactly 0
        score_BT = step_scores(previews.total_X.to(device).double().view(B, T), known_BT).float()
        gap_BT = centred(score_BT, known_BT, rollout.group_B)
        return (gap_BT / (group_std(score_BT, known_BT, rollout.group_B) + ADDED)).float()


def step_scores(reward_BT: Tensor, known_BT: Tensor) -> Tensor:
    """Gain over the known reward before plus the mean of the known ones behind, float64 (B, T).

    Args:
        reward_BT: float64, rewards of the proposals.
        known_BT: bool; the other entries are skipped, and their own score means nothing.
    """
    reward_BT = torch.where(known_BT, reward_BT, 0)
    T = reward_BT.shape[1]
    step_T = torch.arange(T, device=reward_BT.device)
    latest_BT = torch.where(known_BT, step_T, -1).cummax(1).values
    before_BT = torch.nn.functional.pad(latest_BT[:, :-1], (1, 0), value=-1)
    previous_BT = reward_BT.gather(1, before_BT.clamp(min=0)) * (before_BT >= 0)
    behind_BT = reward_BT.flip(1).cumsum(1).flip(1) - reward_BT
    count_BT = known_BT.long().flip(1).cumsum(1).flip(1) - known_BT.long()
    mean_BT = torch.where(count_BT > 0, behind_BT / count_BT.clamp(min=1), reward_BT)
    return reward_BT - previous_BT + mean_BT
