"""Linear masking schedule."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dllmzoo.schedules._commits import spread_evenly
from dllmzoo.zoo import SCHEDULES


@SCHEDULES.register("linear")
@dataclass(frozen=True)
class Linear:
    """Mask probability t; decoding commits equally many tokens at every step.

    The schedule of LLaDA, in training and in decoding: `num_masked // steps` tokens a step, and
    one more at the first `num_masked % steps` steps.

    References:
        Nie et al., 2025, Large Language Diffusion Models (arXiv:2502.09992).
    """

    def mask_prob(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at time t in [0, 1]; 0 at t=0, 1 at t=1."""
        return t

    def rate(self, t: Tensor) -> Tensor:
        """d/dt of `mask_prob`: 1 everywhere."""
        return torch.ones_like(t)

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps; they sum to `num_masked`."""
        return spread_evenly(num_masked, steps)
