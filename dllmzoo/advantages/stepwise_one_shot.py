"""Credit for single denoising steps from one-shot guesses of their states."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.advantages._group import answer_rewards, centred, grouped
from dllmzoo.errors import UsageError
from dllmzoo.records import VALUE, Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES


@ADVANTAGES.register("stepwise_one_shot", aliases=("egspo_sa", "stepwise"))
@dataclass(frozen=True)
class StepwiseOneShot:
    r"""Final reward plus its gain over the one-shot guess of a state, group-centred.

    A state's one-shot guess fills every masked slot at once from the logits that score the step
    anyway: no extra forward, K extra rewards per sample (times `guesses`). With final reward
    $r_i$ and the reward $\hat r_{i,k}$ of the guess before the k-th chosen step,

    $$ A_{i,k} = (r_i - \bar r) - w\,(\hat r_{i,k} - b_{i,k}), \qquad w = \lambda/(1+\lambda), $$

    which is the group-centred $(r + \lambda (r - \hat r))/(1 + \lambda)$ when $b$ is the mean of
    the guesses at the same rank k (`centre: rank`). The guess depends on the state before the
    step only, so it is a baseline: with a sampler and a selector that ignore the tokens drawn it
    changes the variance of the gradient, not its mean.

    Samples whose reward abstained are out of every mean and get 0, as does a group with fewer
    than two counted samples. A guess whose reward abstained is out of the means, and its step is
    judged by the final reward alone; so are the entries that a selector left unused.

    Args:
        weight: lambda, >= 0; share of the gain over the guess. 0 gives `group_relative`; the
            paper's scripts use 0.5.
        growth: lambda over the denoising steps of an answer: `constant`, or `linear`, where step
            s of T has $\lambda\,(s + 1)/T$ and so each entry a w of its own. The paper lets it grow
            with the step and gives no formula; its release keeps it constant.
        normalise: divide by 1 + lambda, so that lambda changes the mixture and not the scale.
        centre: b, what is subtracted from a guess: `rank`, the group's mean over guesses of the
            same rank k; `loo_rank`, that mean without the sample's own; `step`, the group's mean
            over guesses of the same denoising step; `own`, nothing (leaves an offset).
        reward_baseline: what is subtracted from the final reward: the group's `mean`, or the
            mean of the other samples (`loo`).
        standard_returns: $(r_i - \bar r) + \lambda (r_i - \hat r_{i,k})$ instead, the gain not
            centred at all; `centre` has no effect then.
        guesses: guesses of each state; 1 takes the most probable token of each slot, more are
            sampled and their rewards averaged.
        preview_reward: rewards a guess with `all` components, or with the `last_component`
            alone, unweighted (leaves an offset).
        halve_every: rounds after which lambda is halved, again and again; null = never.

    Raises:
        UsageError: guesses or chosen steps are missing, or their number does not fit `guesses`.

    References:
        Kunde et al., 2026 (arXiv:2603.12554). Differs from its release in: `normalise` is true
        by default, as its scripts set it; lambda halves by rounds, never before the first.
    """

    weight: Annotated[float, Field(ge=0)] = 0.5
    growth: Literal["constant", "linear"] = "constant"
    normalise: bool = True
    centre: Literal["rank", "own", "step", "loo_rank"] = "rank"
    reward_baseline: Literal["mean", "loo"] = "mean"
    standard_returns: bool = False
    guesses: Annotated[int, Field(ge=1)] = 1
    preview_reward: Literal["all", "last_component"] = "all"
    halve_every: Annotated[int, Field(ge=1)] | None = None

    needs_previews: ClassVar[bool] = True
    per_step: ClassVar[bool] = True
    needs_group: ClassVar[bool] = True
    exempt: ClassVar[dict[str, str]] = {
        "equal_rewards_give_zero if centre=own": "the guesses keep their mean, as in the release",
        "equal_rewards_give_zero if standard_returns=true": "the gain over the guess keeps its "
        "mean, as in the release",
        "groups_sum_to_zero if centre=own": "the guesses keep their mean, as in the release",
        "groups_sum_to_zero if standard_returns=true": "the gain over the guess keeps its mean, "
        "as in the release",
        "groups_sum_to_zero if centre=step": "means are over equal steps, sums over equal ranks",
        "groups_sum_to_zero if growth=linear": "samples of one rank are at other steps, and so "
        "have another lambda each",
        "shift if centre=own": "a constant added to every reward stays in the guesses",
    }

    def __call__(
        self,
        rewards: Rewards,
        previews: Rewards | None,
        steps: Steps | None,
        rollout: Rollout,
        round: int,
    ) -> Tensor:
        """advantage_BA with A = K, float32, reward units; column k judges the k-th chosen step."""
        if previews is None or steps is None:
            raise UsageError(
                "advantage stepwise_one_shot judges chosen steps by one-shot guesses, and they "
                "are missing; use it with a selector and likelihood denoising_steps"
            )
        group_B = rollout.group_B
        device = group_B.device
        start_BK, used_BK = steps.start_BK.to(device), steps.weight_BK.to(device) > 0
        reward_B1, counted_B1 = answer_rewards(rewards, rollout)
        guess_BK, known_BK = self._guesses(previews, used_BK & counted_B1)

        others = self.reward_baseline == "loo"
        gain_B1 = centred(reward_B1, counted_B1, group_B, others=others)
        weight_BK = self._weights(start_BK, rollout.num_steps, round)
        scale_BK = 1 / (1 + weight_BK) if self.normalise else torch.ones_like(weight_BK)
        if self.standard_returns:
            improvement_BK = torch.where(known_BK, reward_B1 - guess_BK, gain_B1)
            advantage_BK = scale_BK * (gain_B1 + weight_BK * improvement_BK)
        else:
            surplus_BK = self._surplus(guess_BK, known_BK, start_BK, group_B)
            whole_BK = torch.ones_like(weight_BK) if self.normalise else 1 + weight_BK
            advantage_BK = whole_BK * gain_B1 - scale_BK * weight_BK * surplus_BK
        return torch.where(grouped(counted_B1, group_B), advantage_BK, 0).float()

    def _weights(self, start_BK: Tensor, num_steps: int, round: int) -> Tensor:
        """The lambda of each entry in this round, float64 (B, K)."""
        weight = self.weight
        if self.halve_every:
            weight = weight * 0.5 ** (round // self.halve_every)
        weight_BK = torch.full(start_BK.shape, weight, dtype=torch.float64, device=start_BK.device)
        if self.growth == "linear":
            weight_BK = weight_BK * (start_BK + 1).clamp(max=num_steps) / num_steps
        return weight_BK

    def _guesses(self, previews: Rewards, counted_BK: Tensor) -> tuple[Tensor, Tensor]:
        """Mean reward of each state's guesses, and where there is one; float64 and bool (B, K)."""
        B, K = counted_BK.shape
        if previews.total_X.numel() != B * K * self.guesses:
            raise UsageError(
                f"advantage stepwise_one_shot got {previews.total_X.numel()} rewarded guesses; "
                f"{B} samples x {K} steps x {self.guesses} guesses make {B * K * self.guesses}"
            )
        total_X, valued_X = previews.total_X, previews.counted_X
        if self.preview_reward == "last_component":
            total_X, valued_X = previews.part_XC[:, -1], previews.outcome_XC[:, -1] == VALUE
        device = counted_BK.device
        valued_BKX = valued_X.to(device).view(B, K, self.guesses)
        total_BKX = total_X.to(device).double().view(B, K, self.guesses)
        sum_BK = torch.where(valued_BKX, total_BKX, 0).sum(2)
        return sum_BK / valued_BKX.sum(2).clamp(min=1), valued_BKX.any(2) & counted_BK

    def _surplus(
        self, guess_BK: Tensor, known_BK: Tensor, start_BK: Tensor, group_B: Tensor
    ) -> Tensor:
        """Guess minus its baseline b, float64 (B, K); 0 where there is no guess."""
        if self.centre == "own":
            return torch.where(known_BK, guess_BK, 0)
        if self.centre == "step":
            return _centred_by_step(guess_BK, known_BK, start_BK, group_B)
        return centred(guess_BK, known_BK, group_B, others=self.centre == "loo_rank")


def _centred_by_step(
    guess_BK: Tensor, known_BK: Tensor, start_BK: Tensor, group_B: Tensor
) -> Tensor:
    """Guess minus the mean over the group's guesses of the same denoising step."""
    K = guess_BK.shape[1]
    pairs = torch.stack([group_B.repeat_interleave(K), start_BK.flatten()], dim=1)
    bucket = pairs.unique(dim=0, return_inverse=True)[1]
    flat = centred(guess_BK.reshape(-1, 1), known_BK.reshape(-1, 1), bucket)
    return flat.view_as(guess_BK)
