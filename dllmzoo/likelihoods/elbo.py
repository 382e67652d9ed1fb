"""Monte-Carlo evidence lower bound of an answer, from randomly hidden subsets."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._masks import BlockChoice, masks
from dllmzoo.likelihoods._plan import (
    Spacing,
    after_end,
    independent_slots,
    precise,
    random_subset,
    refuse_idle,
    sequence_views,
    spaced,
    views_apart,
)
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.recipe.part import Part
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("elbo", aliases=("uniform_k",))
@dataclass(frozen=True)
class Elbo:
    r"""Unbiased evidence lower bound of the answer: K random masks, each hidden token weighed.

    A view v hides a random set $H_v$ of the n valid tokens, and

    $$ \hat E(y) = \frac1K \sum_{v=1}^K w_v
       \sum_{i \in H_v} \log \pi_\theta(y_i \mid y_{\setminus H_v}). $$

    | subset | hidden | w |
    |---|---|---|
    | `uniform_k` | k of the n tokens, k uniform in 1..n | n / k |
    | `uniform_k`, weight `plus_one` | k uniform in 0..n | (n + 1) / k |
    | `uniform_t` | each with probability m(t), t uniform in (0, 1] | m'(t) / m(t) |

    Costs at most K forwards per sample and pass: a view that hides nothing counts as 0 and costs
    none. In all three rows the mean over masks is exactly the ELBO of the valid tokens, which is
    at most their log-likelihood; a ratio of two such estimates, being an exponential, is biased
    however many views it averages. t is 1 minus a 24-bit number below 1, so it is never below
    2^-24 and no weight is infinite; nothing is clamped. The schedule m changes the variance, not
    the mean. Slots after the end token are always hidden and never scored. The prompt is hidden
    by `block_random` only.

    Two surrogates differ. Weight `none` takes n times the plain mean over a view's hidden tokens:
    for `uniform_k` this is the ELBO again, for `uniform_t` it averages n / (n + 1) of it (linear
    schedule), empty views counting as 0. Masks `block_random` follow the states of a block-wise
    sampler and weigh alike; they bound nothing.

    Args:
        views: K >= 1; the variance of independent views falls as 1/K.
        subset: law of the hidden set.
        spacing: `independent` draws; `stratified`, one in each K-th of the range of k or t;
            `strided`, one draw and the others 1/K of the range further, round the end: every view
            alone is uniform. The last two have a smaller variance.
        weight: `elbo` is the table's; `plus_one` also fits `uniform_t` with a linear schedule,
            where k is uniform in 0..n; `none` is the mean over the hidden tokens, times n.
        masks: `uniform` hides as `subset` says; `block_random` hides part of a random block, all
            later blocks and a little of what stands before it, as SPG and StableDRL do.
        unit: `sequence` averages the views; `view` gives each its own log-prob and ratio, of the
            whole sequence. A view that hides nothing is then no unit.
        schedule: m(t) of `uniform_t`.
        shares_masks: true lets new, old and reference policy score the same masks, so the first
            ratio of a round is exactly 1; false gives old and reference masks of their own,
            which makes ratios noisy from the start.
        block_length: slots of a block of `block_random`, >= 1; null takes the sampler's.
        prefix_noise: probability in [0, 1) that `block_random` hides a slot before the block.
        block_choice: of `block_random`: `uniform` deals the used blocks in random order;
            `permutation_mod` is the released rule, not quite uniform.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: options that say nothing beside the others, or `plus_one` for a schedule that
            is not linear.

    References:
        Nie et al., 2025, LLaDA (arXiv:2502.09992): n/k and 1/t. BGPO (arXiv:2510.11683): strided
        `uniform_k`, a ratio per view. VRPO (arXiv:2505.19223): one mask per t. SPG
        (arXiv:2510.09541) and StableDRL (arXiv:2603.06743): `block_random`. Differs from BGPO's
        re-implementation in: strides are rounded so that k stays uniform where K does not
        divide n.
    """

    views: Annotated[int, Field(ge=1)] = 2
    subset: Literal["uniform_k", "uniform_t"] = "uniform_k"
    spacing: Spacing = "independent"
    weight: Literal["elbo", "plus_one", "none"] = "elbo"
    masks: Literal["uniform", "block_random"] = "uniform"
    unit: Literal["sequence", "view"] = "sequence"
    schedule: Annotated[Any, Part("schedule")] = "linear"
    shares_masks: bool = True
    block_length: Annotated[int, Field(ge=1)] | None = None
    prefix_noise: Annotated[float, Field(ge=0, lt=1)] = 0.15
    block_choice: BlockChoice = "uniform"
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    exempt: ClassVar[dict[str, str]] = {
        "unbiased if masks=block_random": "masks that imitate a block-wise sampler, as SPG and "
        "StableDRL use them, hide later blocks together and so do not average to the ELBO",
        "unbiased if weight=none": "with uniform_t the plain mean over hidden tokens averages "
        "n / (n + 1) of the ELBO, since one mask in n + 1 hides nothing",
        "total_nats if weight=none": "with uniform_t a mask that hides nothing counts as 0 nats",
    }

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        blocks = ("block_length", "prefix_noise", "block_choice")
        if self.masks == "block_random":
            idle = ("subset", "spacing", "weight", "schedule")
            refuse_idle(self, idle, "masks block_random")
            return
        refuse_idle(self, blocks, "masks uniform")
        if self.subset == "uniform_k":
            refuse_idle(self, ("schedule",), "subset uniform_k")
        elif self.weight == "plus_one" and self.schedule != Part("schedule").make("linear"):
            raise UsageError(
                f"weight plus_one needs a number of hidden tokens that is uniform in 0..n, which "
                f"schedule {self.schedule} does not give; use schedule linear, or weight elbo"
            )

    @property
    def num_forwards(self) -> int:
        """K."""
        return self.views

    @property
    def num_draws(self) -> int:
        """K where views are independent."""
        apart = self.spacing == "independent" and self.masks == "uniform"
        return self.views if apart else 1

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """K views, each a random subset of the valid slots."""
        if self.masks == "block_random":
            hide_BKL, score_BKL = masks(
                "block_random", key, rollout, self.views, block_length=self.block_length,
                prefix_noise=self.prefix_noise, block_choice=self.block_choice,
            )  # fmt: skip
            weight_BK = _over_hidden(rollout.length_B, score_BKL)
        else:
            score_BKL, weight_BK = self._subsets(rollout, key)
            hide_BKL = score_BKL | after_end(rollout).unsqueeze(1)
        temperature = self.temperature or rollout.temperature
        make = views_apart if self.unit == "view" else sequence_views
        if self.unit == "sequence":
            weight_BK = weight_BK / self.views
        return make(hide_BKL, score_BKL, weight_BK.unsqueeze(2), rollout.length_B, temperature)

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The estimate of the ELBO, total nats of the sequence."""
        return linear_pool(logprob_BKL, views)

    def _subsets(self, rollout: Rollout, key: Key) -> tuple[Tensor, Tensor]:
        """The hidden valid slots of each view and the view's weight w."""
        drawn_BK = spaced(key.sub("size"), rollout, self.views, self.spacing)
        length_B, rate_BK = rollout.length_B, None
        if self.subset == "uniform_t":
            choose = independent_slots
            amount_BK, rate_BK = self._rates(drawn_BK)
        else:
            choose = random_subset
            least = 0 if self.weight == "plus_one" else 1
            amount_BK = _sizes(drawn_BK, length_B.cpu().unsqueeze(1), least).to(length_B.device)
        score_BKL = torch.stack(
            [
                choose(key.sub(f"view{k}"), rollout, rollout.valid_BL, amount_BK[:, k])
                for k in range(self.views)
            ],
            dim=1,
        )
        if rate_BK is not None and self.weight == "elbo":
            return score_BKL, rate_BK.to(precise(length_B.device)).to(length_B.device)
        return score_BKL, _over_hidden(length_B + (self.weight == "plus_one"), score_BKL)

    def _rates(self, drawn_BK: Tensor) -> tuple[Tensor, Tensor]:
        """Mask probability m and weight m'/m at t = 1 - drawn; a probability of 0 hides nothing."""
        t_BK = 1 - drawn_BK
        prob_BK = self.schedule.mask_prob(t_BK)
        weight_BK = self.schedule.rate(t_BK) / prob_BK
        return prob_BK, torch.where(prob_BK > 0, weight_BK, 0)


def _sizes(drawn_BK: Tensor, length_B1: Tensor, least: int) -> Tensor:
    """Whole numbers from `least` to n, each on an equal part of [0, 1)."""
    count_B1 = length_B1 + 1 - least
    return least + (drawn_BK * count_B1).long().clamp(max=count_B1 - 1)


def _over_hidden(tokens_B: Tensor, score_BKL: Tensor) -> Tensor:
    """`tokens` over the number of hidden tokens of each view, (B, K)."""
    hidden_BK = score_BKL.sum(2).clamp(min=1).to(precise(score_BKL.device))
    return tokens_B.unsqueeze(1) / hidden_BK
