"""Evidence upper bound of an answer, from randomly hidden subsets."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from dllmzoo.likelihoods._bounds import default_noise, plan_bounds, upper_bound
from dllmzoo.likelihoods._masks import BlockChoice, MaskLaw
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS

OFFSET = (
    "a slot that few of the K views hide is raised by a constant of the masks "
    "(arXiv:2510.09541), which no gradient sees: the value is not a count of nats"
)


@LIKELIHOODS.register("eubo", aliases=("upper_bound",))
@dataclass(frozen=True)
class Eubo:
    r"""Evidence upper bound: each slot's mean probability to the power b, over K masks.

    With H_k the m_k valid slots that view k hides, of n,

    $$ U = \frac nb\ \underset{i:\ u_i > 0}{\mathrm{mean}} \log u_i, \qquad
       u_i = \frac1K \sum_k 1[i \in H_k] \frac{p_{ik}^{\,b}}{m_k / n} $$

    What it bounds, with `masks: random` and no prefix noise. Each term of $u_i$ has mean
    $\mathbb E_\sigma[p_{i|\sigma}^{\,b}]$, the token's probability to the power b where it stands
    in a random order $\sigma$ of generation. So as K grows, U tends to
    $\sum_i \frac1b \log \mathbb E_\sigma[p_{i|\sigma}^{\,b}]$. This limit

    - is at least the ELBO, for any b (Jensen), and grows with b;
    - is at least $\log p(y) = \log \mathbb E_\sigma \prod_i p_{i|\sigma}$ if b >= n (Hoelder), or
      for any b if the network's conditionals belong to one joint law, so that the product is the
      same for all orders;
    - for smaller b can fall below $\log p(y)$ where some orders are better than others for most
      tokens at once.

    With few views U is another thing: slots that no view hides are left out of the mean, the
    logarithm of a mean over K terms is on average too small, and a slot hidden by only some views
    is raised: by $-\frac1b \log (K m_k / n)$ where view k alone hides it. For K = 1 that makes
    the mean of U over masks the ELBO plus exactly $\frac1b \log (n^n / n!)$. The offset depends
    on the masks and not on the network: the gradient is right, the value is not, and may be
    positive. Hence the ratio and the KL read the lower bound E of `sandwich` instead, and losses
    that differentiate the ratio (`clipped_surrogate`) train E.

    Costs K forwards per sample and pass. Biased for the ELBO and for the log-likelihood. Meant
    for answers that are to be made less likely: raising an upper bound need not raise what it
    bounds.

    Args:
        views: K >= 1.
        exponent: b > 0.
        masks: `random` hides a uniformly random subset of uniform size; `block_random` a random
            part of one block and all later ones, `block_all` the whole block and all later ones,
            `all` everything.
        prefix_noise: probability in [0, 1) that a slot before the chosen block is hidden too,
            prompt included (with `random` and `all`: a prompt slot); null = 0.15, or 0 with
            `random`.
        block_length: tokens of a block, >= 1, counted from the answer's start; null = the
            sampler's.
        block_choice: `uniform`: every block with valid tokens equally often, none twice before
            all have come; `permutation_mod`: as released, an order of all blocks, modulo the used
            ones.
        score_block_only: true scores hidden slots of the chosen block only, false all of them.
        shares_masks: true lets new, old and reference policy score the same masks.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    References:
        Wang et al., 2025, SPG (arXiv:2510.09541). Differs from its release in: pooled in log
        space, so unlikely tokens are kept; the temperature.
    """

    views: Annotated[int, Field(ge=1)] = 2
    exponent: Annotated[float, Field(gt=0)] = 1.5
    masks: MaskLaw = "random"
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
        "unbiased": "it is made to lie above the log-likelihood, and so above the ELBO "
        "(arXiv:2510.09541)",
        "not_positive": OFFSET,
        "total_nats": OFFSET,
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
        """K, of the ratio's E; blocks dealt without replacement are not quite independent."""
        return self.views

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """K views under the mask law, weighted for the E of the ratio."""
        return plan_bounds(
            self.masks, key, rollout, self.views, block_length=self.block_length,
            prefix_noise=self.prefix_noise, block_choice=self.block_choice,
            score_block_only=self.score_block_only, temperature=self.temperature,
        )  # fmt: skip

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """Total nats; the score is U, the ratio E."""
        lower_BU = linear_pool(logprob_BKL, views).ratio_BU
        return Estimate(upper_bound(logprob_BKL, views, self.exponent), lower_BU)
