"""Sampler that commits the most confident tokens first."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dllmzoo.samplers._candidates import Candidates, at_token
from dllmzoo.samplers._end_damping import EndDamping
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

    Args:
        end_damping: `{lo, hi, ramp}`; what is drawn and recorded stays, but slots whose candidate
            is a stop token are ordered by their confidence times a factor that grows from `lo` to
            `hi` (in [0, 1]) over the T steps, `linear` or, for commits that double, `pow2`.
            null = by confidence alone.

    References:
        Nie et al., 2025, Large Language Diffusion Models (arXiv:2502.09992). Threshold: Wu et al.,
        2025, Fast-dLLM (arXiv:2505.22618). Damping: Yang et al., 2025, CJ-GRPO (arXiv:2509.23924).
        Differs from them in: blocks and steps need not divide, the mask token is never drawn,
        `confidence_inf` and the damping cover every stop token, at any temperature.
    """

    end_damping: EndDamping | None = None

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """Probability of the candidate."""
        return at_token(prob_SV, token_S)

    def ranked(
        self, found: Candidates, step: int | Tensor, stop_ids: tuple[int, ...]
    ) -> Candidates:
        """The candidates, stop tokens with damped certainty."""
        if self.end_damping is None or not stop_ids:
            return found
        stops = torch.tensor(stop_ids, device=found.token_S.device)
        factor = self.end_damping.factor(step, self.num_steps)
        factor = torch.as_tensor(factor, dtype=torch.float32, device=stops.device)
        damped_S = torch.where(torch.isin(found.token_S, stops), factor, 1.0) * found.certainty_S
        return replace(found, certainty_S=damped_S)
