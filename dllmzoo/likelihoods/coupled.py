"""Complementary masks: what one view hides, its twin shows, so every token is scored."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._plan import (
    after_end,
    independent_slots,
    precise,
    random_subset,
    refuse_idle,
    sequence_views,
    slot_views,
)
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS

GOLDEN = (5**0.5 - 1) / 2
"""Fractional parts of its multiples fill [0, 1) evenly, however many there are."""


@LIKELIHOODS.register("coupled", aliases=("coupled_grpo", "espo"))
@dataclass(frozen=True)
class Coupled:
    r"""Log-probs from a random mask and its complement: every token is scored in each pair.

    `elbo` is the pair of ESPO: x uniform in 0..n, a random x-subset H of n slots, and

    $$ \hat E(y) = \tfrac12 \Big[ \tfrac{n+1}{x} \sum_{i \in H} \log \pi_\theta(y_i \mid H)
       + \tfrac{n+1}{n-x} \sum_{i \notin H} \log \pi_\theta(y_i \mid \bar H) \Big], $$

    an empty mask counting as 0; `draws` pairs are averaged. Costs at most 2 `draws` forwards per
    sample and pass. Its mean is exactly the ELBO of the n slots.

    `token` is that of coupled-GRPO: t uniform in [`low`, `high`], each slot hidden with
    probability t, and a token's value is

    $$ \tfrac12 \big[ \log \pi_\theta(y_i \mid \text{all masked})
       + w_i \log \pi_\theta(y_i \mid \text{the view that hides } i) \big],
       \quad w_i = 1/t \text{ or } 1/(1-t). $$

    Costs 1 + 2 `draws` forwards per sample and pass. Biased for every log-prob: the weights average
    2, so a token of -1 nat has the mean value -1.5, from -3 to -1.125 at the default range.

    A name picks no form: coupled-GRPO is `form: token`, ESPO `form: elbo, over: canvas, draws: 2`.

    Args:
        form: `token`, a value for each slot; `elbo`, one for the sequence.
        draws: independent pairs, >= 1, averaged.
        over: which slots are hidden and scored: `valid`, up to the end token, what follows being
            always hidden; `canvas`, all answer slots.
        low: least t of `token`, in (0, 1).
        high: largest t of `token`, in (0, 1), not below `low`.
        stratified: true spreads the draws of the samples of a round evenly over their range, by
            sample number, from one shared draw; each sample alone still has the law above. false
            draws for each sample apart.
        strata: samples of consecutive numbers that share a draw and are spread over the range,
            >= 1; null spreads all samples of the round, whatever their number.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: `low` is above `high`, or an option says nothing beside the others.

    References:
        Gong et al., 2025, DiffuCoder: coupled-GRPO (arXiv:2506.20639). Differs from its release
        in: t is drawn for each sample, there once for a whole call. Ou et al., 2025, ESPO
        (arXiv:2512.03759). Differs from its release in: strata follow the sample number, not the
        rows of a micro-batch; a stride is not rounded away, so every count can occur.
    """

    form: Literal["token", "elbo"] = "token"
    draws: Annotated[int, Field(ge=1)] = 1
    over: Literal["valid", "canvas"] = "valid"
    low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    high: Annotated[float, Field(gt=0, lt=1)] = 0.8
    stratified: bool = True
    strata: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    shares_masks: ClassVar[bool] = True
    exempt: ClassVar[dict[str, str]] = {
        "unbiased if form=token": "the weights of coupled-GRPO (arXiv:2506.20639) add up to 1.5 "
        "on average, and half of them falls on the wholly hidden answer",
        "total_nats if form=token": "the weights of coupled-GRPO (arXiv:2506.20639) add up to 1.5 "
        "on average, so a token of -1 nat has the value -1.5",
    }

    def __post_init__(self) -> None:
        """Refuse an empty range and options that do not go together."""
        if self.low > self.high:
            raise UsageError(f"low {self.low} is above high {self.high}; use low <= high")
        if self.form == "elbo":
            refuse_idle(self, ("low", "high"), "form elbo, which draws counts")
        if not self.stratified:
            refuse_idle(self, ("strata",), "stratified false")

    @property
    def unit(self) -> Unit:
        """Slot or sequence."""
        return "slot" if self.form == "token" else "sequence"

    @property
    def num_forwards(self) -> int:
        """A mask and its twin for each draw, and the wholly hidden view of `token`."""
        return 2 * self.draws + (self.form == "token")

    @property
    def num_draws(self) -> int:
        """Pairs of one sample, which are independent; 1 where they have no estimate alone."""
        return self.draws if self.form == "elbo" else 1

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """Pairs of views (mask, twin) after each other, behind the wholly hidden one if any."""
        among_BL = rollout.valid_BL if self.over == "valid" else rollout.answer_BL
        pairs = [self._pair(rollout, among_BL, key.sub(f"draw{d}")) for d in range(self.draws)]
        score = [view for scored, _ in pairs for view in scored]
        weight = [each / (2 * self.draws) for _, weights in pairs for each in weights]
        if self.form == "token":
            score.insert(0, among_BL)
            weight.insert(0, torch.full_like(weight[0], 0.5))
        score_BKL = torch.stack(score, 1)
        weight_BKL = torch.stack(weight, 1).unsqueeze(2)
        hide_BKL = score_BKL
        if self.over == "valid":
            hide_BKL = hide_BKL | after_end(rollout).unsqueeze(1)
        temperature = self.temperature or rollout.temperature
        if self.form == "token":
            return slot_views(hide_BKL, score_BKL, temperature, weight_BKL)
        return sequence_views(hide_BKL, score_BKL, weight_BKL, among_BL.sum(1), temperature)

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The ELBO estimate of the sequence, or the value of each token."""
        return linear_pool(logprob_BKL, views)

    def _pair(
        self, rollout: Rollout, among_BL: Tensor, key: Key
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """What a mask and its twin hide, (B, L) each, and the weights of both, (B,) each."""
        device = among_BL.device
        count_B = among_BL.sum(1)
        if self.form == "token":
            place_B = self._drawn(key, rollout, torch.ones(len(among_BL), dtype=torch.float64)) % 1
            t_B = (self.low + (self.high - self.low) * place_B).to(precise(device)).to(device)
            mask_BL = independent_slots(key, rollout, among_BL, t_B)
            weight, twin_weight = 1 / t_B, 1 / (1 - t_B)
        else:
            circle_B = count_B.cpu().double() + 1
            drawn_B = self._drawn(key, rollout, circle_B)
            size_B = (drawn_B.round() % circle_B).long().to(device)
            mask_BL = random_subset(key, rollout, among_BL, size_B)
            weight, twin_weight = (
                (count_B + 1) / shown_B.clamp(min=1).to(precise(device))
                for shown_B in (size_B, count_B - size_B)
            )
        return (mask_BL, among_BL & ~mask_BL), (weight, twin_weight)

    def _drawn(self, key: Key, rollout: Rollout, circle_B: Tensor) -> Tensor:
        """A number for each sample that is uniform round a circle of the given length, (B,)."""
        sample_B = rollout.sample_B.cpu()
        key = key.sub("place")
        if not self.stratified:
            return key.uniform(sample_B, 1).double().squeeze(1) * circle_B
        if self.strata is None:
            start_B = key.uniform(torch.full_like(sample_B, -1), 1).double().squeeze(1) * circle_B
            return start_B + (sample_B * GOLDEN) % 1 * circle_B
        start_B = key.uniform(sample_B // self.strata, 1).double().squeeze(1) * circle_B
        return start_B + (sample_B % self.strata) * circle_B / self.strata
