"""Likelihood of left-to-right decoding: every token from the answer before it."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.likelihoods._plan import slot_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("prefixes", aliases=("just_grpo",))
@dataclass(frozen=True)
class Prefixes:
    r"""Log-prob of each answer token given those before it, all later slots hidden.

    View j shows the answer before slot j, hides the slot and all that follow, and scores it:

    $$ \ell_j(\theta) = \log \pi_\theta(y_j \mid q, y_{<j}, \text{masks}) $$

    Costs n forwards per sample and pass, one for each valid token: the dearest there is. The sum
    over tokens is the exact log-likelihood of the answer under left-to-right decoding, one token
    a step, at the sampler's temperature (up to the probability that the network gives the mask
    token, which is never drawn); for a sampler that decodes in another order it is the
    log-likelihood of that other model. It is one term of the ELBO, which averages over orders.
    Nothing is random, so all passes are alike.

    Args:
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    References:
        Ni et al., 2026, JustGRPO (arXiv:2601.15165). Differs from its release in: slots after the
        end token are not scored; old log-probs are those of the same views, so ratios are real.
    """

    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    shares_masks: ClassVar[bool] = True
    unit: ClassVar[Unit] = "slot"
    num_forwards: ClassVar[int | None] = None
    exempt: ClassVar[dict[str, str]] = {
        "unbiased": "it is the exact log-likelihood of one order, left to right, as in JustGRPO "
        "(arXiv:2601.15165); the ELBO averages over all orders",
    }

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """N views, one for each column of the answer; those of unscored slots cost nothing."""
        L = rollout.tokens_BL.shape[1]
        column_L = torch.arange(L, device=rollout.tokens_BL.device)
        slot_K1 = column_L[L - rollout.canvas :].unsqueeze(1)
        hide_BKL = (column_L >= slot_K1) & rollout.answer_BL.unsqueeze(1)
        score_BKL = (column_L == slot_K1) & rollout.valid_BL.unsqueeze(1)
        return slot_views(hide_BKL, score_BKL, self.temperature or rollout.temperature)

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The log-prob of each token."""
        return linear_pool(logprob_BKL, views)
