"""Cosine masking schedule."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dllmzoo.schedules._commits import spread
from dllmzoo.zoo import SCHEDULES


@SCHEDULES.register("cosine")
@dataclass(frozen=True)
class Cosine:
    r"""Mask probability 1 - cos(pi t / 2); decoding commits few tokens first.

    As noise it masks little for most of the time. In decoding
    $\cos(\tfrac{\pi}{2}\tfrac{i}{T})$ of the tokens are still masked after step i of T: few
    commits while the canvas is nearly empty, most at the end. Rounding keeps at least one commit
    a step as long as there are tokens.

    References:
        Chang et al., 2022, MaskGIT (arXiv:2202.04200): the decoding law. Differs from it in: each
        later step also keeps a token to commit, which its rounding does not promise.
    """

    def mask_prob(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at time t in [0, 1]; 0 at t=0, 1 at t=1."""
        masked = 2 * torch.sin(math.pi / 4 * t) ** 2  # 1 - cos would cancel near 0
        return masked.masked_fill(t >= 1, 1)

    def rate(self, t: Tensor) -> Tensor:
        """d/dt of `mask_prob`, >= 0."""
        return math.pi / 2 * torch.sin(math.pi / 2 * t)

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps, few first; they sum to `num_masked`."""
        return spread(num_masked, steps, self.mask_prob)
