"""SPG's sandwich: a lower bound for good answers, an upper bound mixed in for bad ones."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.likelihoods._bounds import default_noise, plan_bounds, upper_bound
from dllmzoo.likelihoods._masks import BlockChoice, MaskLaw
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS

SURROGATE = (
    "it masks as a block-wise sampler does, and not uniformly, as SPG does (arXiv:2510.09541): a "
    "surrogate of the ELBO"
)
UPPER = (
    "an upper bound from few masks can be above 0: a slot that one of K views hides is raised by "
    "a constant (arXiv:2510.09541), which no gradient sees"
)


@LIKELIHOODS.register("sandwich", aliases=("spg",))
@dataclass(frozen=True)
class Sandwich:
    r"""Two bounds from the same masks: the advantage's sign says which one is trained.

    Raising a lower bound raises the log-prob, and so does lowering an upper bound lower it. With
    H_k the m_k valid slots that view k hides, of n,

    $$ E = \frac nK \sum_k \frac1{m_k} \sum_{i \in H_k} \log p_{ik}, \qquad
       U = \frac nb\ \underset{i:\ u_i > 0}{\mathrm{mean}} \log u_i, \quad
       u_i = \frac1K \sum_k 1[i \in H_k] \frac{p_{ik}^{\,b}}{m_k / n} $$

    and an answer scores E where A > 0 and what `negative` says where A <= 0. The ratio is E for
    either sign: U has an offset that depends on the masks. Losses that differentiate the ratio
    (`clipped_surrogate`) therefore train E alone; `policy_gradient` and `stable_drl` differentiate
    the score.

    Costs K forwards per sample and pass. With `masks: random` and no prefix noise, E is unbiased
    for the ELBO of the valid tokens, and so on average at most their log-likelihood; see `eubo`
    for what U bounds. With the other masks E resembles the states that a block-wise sampler
    visits, and is neither unbiased nor a bound; with `all` it is the mean-field value. Ratios,
    being exponentials, are biased under any of them.

    Args:
        masks: `block_random` hides a random part of one block and all later ones, `block_all` the
            whole block and all later ones, `random` a uniformly random subset of uniform size,
            `all` everything (views then differ in prefix noise only).
        views: K >= 1; SPG uses 2.
        exponent: b > 0 of U; 1 to 2 in SPG. A larger one makes a higher bound.
        omega: share of U in the mixture, in [0, 1].
        negative: score of answers with A <= 0: `mixture` is omega U + (1 - omega) E, `upper` U,
            `lower` E, `zero` leaves them out.
        prefix_noise: probability in [0, 1) that a slot before the chosen block is hidden too,
            prompt included (with `random` and `all`: a prompt slot); null = 0.15, or 0 with
            `random`, whose E is the ELBO then.
        block_length: tokens of a block, >= 1, counted from the answer's start; null = the
            sampler's.
        block_choice: `uniform`: every block with valid tokens equally often, none twice before
            all have come; `permutation_mod`: as released, an order of all blocks, modulo the used
            ones.
        score_block_only: true scores hidden slots of the chosen block only, false all of them.
        shares_masks: true lets new, old and reference policy score the same masks, so the first
            ratio of a round is exactly 1; false gives old and reference masks of their own, as
            the release of StableDRL does.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    References:
        Wang et al., 2025, SPG (arXiv:2510.09541); ratios from E: StableDRL, 2026
        (arXiv:2603.06743). Differs from their releases in: U is pooled in log space, so unlikely
        tokens are kept; blocks are chosen uniformly; any answer length; the temperature.
    """

    masks: MaskLaw = "block_random"
    views: Annotated[int, Field(ge=1)] = 2
    exponent: Annotated[float, Field(gt=0)] = 1.5
    omega: Annotated[float, Field(ge=0, le=1)] = 0.5
    negative: Literal["mixture", "upper", "lower", "zero"] = "mixture"
    prefix_noise: Annotated[float, Field(ge=0, lt=1)] | None = None
    block_length: Annotated[int, Field(ge=1)] | None = None
    block_choice: BlockChoice = "uniform"
    score_block_only: bool = False
    shares_masks: bool = True
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    score_is_ratio: ClassVar[bool] = False
    unit: ClassVar[Unit] = "sequence"
    exempt: ClassVar[dict[str, str]] = {
        "unbiased if masks=block_random": SURROGATE,
        "unbiased if masks=block_all": SURROGATE,
        "unbiased if masks=all": "it scores every token from a wholly hidden answer",
        "not_positive if negative=mixture": UPPER,
        "not_positive if negative=upper": UPPER,
    }

    @property
    def random(self) -> bool:
        """Whether passes differ: `all` masks differ in their prefix noise only."""
        noise = default_noise(self.masks) if self.prefix_noise is None else self.prefix_noise
        return self.masks != "all" or noise > 0

    @property
    def num_forwards(self) -> int:
        """K."""
        return self.views

    @property
    def num_draws(self) -> int:
        """K; blocks dealt without replacement make them a little less than independent."""
        return self.views

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """K views under the mask law, weighted for E."""
        return plan_bounds(
            self.masks, key, rollout, self.views, block_length=self.block_length,
            prefix_noise=self.prefix_noise, block_choice=self.block_choice,
            score_block_only=self.score_block_only, temperature=self.temperature,
        )  # fmt: skip

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """Total nats; the score is the bound that suits the advantage's sign, the ratio E."""
        lower_BU = linear_pool(logprob_BKL, views).ratio_BU
        if self.negative == "lower":
            return Estimate(score_BU=lower_BU, ratio_BU=lower_BU)
        below_BU = torch.zeros_like(lower_BU)
        if self.negative != "zero":
            omega = self.omega if self.negative == "mixture" else 1.0
            upper_BU = upper_bound(logprob_BKL, views, self.exponent)
            below_BU = omega * upper_BU + (1 - omega) * lower_BU
        return Estimate(torch.where(advantage_BU > 0, lower_BU, below_BU), lower_BU)
