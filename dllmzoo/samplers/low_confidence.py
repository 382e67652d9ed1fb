"""Sampler that commits the most confident tokens first."""

from dataclasses import dataclass

from torch import Tensor

from dllmzoo.samplers._noise import Noise, Slots
from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("low_confidence")
@dataclass(frozen=True)
class LowConfidence(SemiAutoregressive):
    """Semi-autoregressive decoding of LLaDA: in each block the most confident tokens first.

    At every masked slot of the active block a candidate is drawn; the slots whose candidates have
    the highest probability at temperature 1 are committed, ties going to the smaller position.
    Committing *because* of confidence makes a step's log-prob a token-factorised surrogate, not
    the log-prob of the step.

    References:
        Nie et al., 2025, Large Language Diffusion Models (arXiv:2502.09992). Threshold: Wu et al.,
        2025, Fast-dLLM (arXiv:2505.22618). Differs from them in: blocks and steps need not divide,
        the mask token is never drawn, `confidence_inf` covers every stop token at any temperature.
    """

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """Probability of the candidate."""
        return prob_SV.gather(1, token_S.unsqueeze(1)).squeeze(1)
