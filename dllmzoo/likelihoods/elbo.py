"""Monte-Carlo evidence lower bound of an answer, from randomly hidden subsets."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.likelihoods._plan import random_subset, sequence_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("elbo", aliases=("uniform_k",))
@dataclass(frozen=True)
class Elbo:
    r"""Unbiased evidence lower bound of the answer: random subsets of uniform size, K views.

    Each view draws k uniformly from 1 to n (n valid tokens), hides a uniformly random k-subset
    of the valid tokens and weighs each hidden token's log-prob with n/k:

    $$ \hat E(y) = \frac1K \sum_{v=1}^K \frac{n}{k_v}
       \sum_{i \in H_v} \log \pi_\theta(y_i \mid y_{\setminus H_v}) $$

    Costs K forwards per sample and pass. Its mean over masks is exactly the ELBO of the valid
    tokens, which is at most their log-likelihood; a ratio of two such estimates, being an
    exponential, is biased however many views it averages. Slots after the end token are always
    hidden and never scored. The prompt is never hidden.

    Args:
        views: K >= 1; the variance falls as 1/K.
        shares_masks: true lets new, old and reference policy score the same masks, so the first
            ratio of a round is exactly 1; false gives old and reference masks of their own,
            which makes ratios noisy from the start.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    References:
        Nie et al., 2025, LLaDA (arXiv:2502.09992).
    """

    views: Annotated[int, Field(ge=1)] = 2
    shares_masks: bool = True
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    unit: ClassVar[Unit] = "sequence"

    @property
    def num_forwards(self) -> int:
        """K."""
        return self.views

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """K views, each a random subset of the valid slots."""
        length_B = rollout.length_B
        drawn_BK = key.sub("size").uniform(rollout.sample_B, self.views).to(length_B.device)
        length_B1 = length_B.unsqueeze(1)
        size_BK = 1 + (drawn_BK.double() * length_B1).long().clamp(max=length_B1 - 1)
        score_BKL = torch.stack(
            [
                random_subset(key.sub(f"view{k}"), rollout, rollout.valid_BL, size_BK[:, k])
                for k in range(self.views)
            ],
            dim=1,
        )
        after_BL = rollout.answer_BL & ~rollout.valid_BL
        weight_BK = length_B1 / size_BK.clamp(min=1) / self.views
        return sequence_views(
            score_BKL | after_BL.unsqueeze(1),
            score_BKL,
            weight_BK.float().unsqueeze(2),
            length_B,
            self.temperature or rollout.temperature,
        )

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The estimate of the ELBO, total nats of the sequence."""
        return linear_pool(logprob_BKL, views)
