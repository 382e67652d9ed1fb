"""Log-probs of the tokens that a random mask hides, each on its own."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._plan import after_end, independent_slots, slot_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("masked_tokens", aliases=("unigrpo",))
@dataclass(frozen=True)
class MaskedTokens:
    r"""Log-prob of every token that a random mask hides, given the tokens it leaves.

    A view hides each valid token with probability p, drawn for each response and pass, and scores
    what it hid, unweighted:

    $$ \ell_{v,i}(\theta) = \log \pi_\theta(y_i \mid y_{\setminus H_v}), \quad i \in H_v $$

    Costs `views` forwards per sample and pass, none for a view that hides nothing. Unbiased for
    no likelihood: the mean over hidden tokens averages ELBO / (n + 1) where p is uniform in
    (0, 1), and the sum leaves the weight 1/p out. How many tokens are scored varies from pass to
    pass; the normaliser `token` or `row` of a loss keeps the scale of the gradient. Slots after
    the end token are always hidden and never scored; the prompt is left intact.

    Args:
        views: masks of each response in a pass, >= 1; a token hidden by several is a unit of its
            own in each.
        low: least p, in [0, 1].
        high: largest p, in (0, 1], not below `low`.
        grid: true lays the p of all passes and views of a response on an even grid from `low` to
            `high`, rising from pass to pass, with one random offset of less than a cell for each
            response; false draws each p anew.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: `low` is above `high`.

    References:
        Yang et al., 2025, MMaDA: UniGRPO (arXiv:2505.15809). Differs from re-implementations in:
        the grid has an offset below one cell, so it does not always end at full masking; log-probs
        stay per token, the normaliser of the loss averages them.
    """

    views: Annotated[int, Field(ge=1)] = 1
    low: Annotated[float, Field(ge=0, le=1)] = 0.0
    high: Annotated[float, Field(gt=0, le=1)] = 1.0
    grid: bool = False
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    shares_masks: ClassVar[bool] = True
    unit: ClassVar[Unit] = "slot"
    exempt: ClassVar[dict[str, str]] = {
        "unbiased": "it scores hidden tokens without the weight 1/p, as UniGRPO does "
        "(arXiv:2505.15809), so its sum is no estimate of a log-likelihood",
    }

    def __post_init__(self) -> None:
        """Refuse an empty range."""
        if self.low > self.high:
            raise UsageError(f"low {self.low} is above high {self.high}; use low <= high")

    @property
    def num_forwards(self) -> int:
        """One for each view."""
        return self.views

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """`views` random masks of the valid slots; each (view, slot) is a unit."""
        prob_BK = self.low + (self.high - self.low) * self._places(rollout, key, num_passes)
        score_BKL = torch.stack(
            [
                independent_slots(key.sub(f"view{k}"), rollout, rollout.valid_BL, prob_BK[:, k])
                for k in range(self.views)
            ],
            dim=1,
        )
        hide_BKL = score_BKL | after_end(rollout).unsqueeze(1)
        plain = slot_views(hide_BKL, score_BKL, self.temperature or rollout.temperature)
        K, L = score_BKL.shape[1:]
        first_K1 = torch.arange(K, device=score_BKL.device).unsqueeze(1) * L
        return replace(
            plain,
            unit_BKL=plain.unit_BKL + first_K1,
            size_BU=plain.size_BU.repeat(1, K),
            weight_BU=plain.weight_BU.repeat(1, K),
            column_BU=plain.column_BU.repeat(1, K),
        )

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The log-prob of each hidden token."""
        return linear_pool(logprob_BKL, views)

    def _places(self, rollout: Rollout, key: Key, num_passes: int) -> Tensor:
        """Place of each p between `low` and `high`, float64 (B, K) in [0, 1)."""
        if not self.grid:
            return key.sub("rate").uniform(rollout.sample_B, self.views).double()
        offset_B1 = replace(key, pass_=0).sub("grid").uniform(rollout.sample_B, 1).double()
        cell_K = key.pass_ * self.views + torch.arange(self.views)
        return (cell_K + offset_B1) / (num_passes * self.views)
