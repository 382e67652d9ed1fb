"""Sigmoid masking schedule."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.schedules._commits import spread
from dllmzoo.zoo import SCHEDULES


@SCHEDULES.register("sigmoid")
@dataclass(frozen=True)
class Sigmoid:
    r"""Mask probability that follows an S: its log-odds are about linear in time.

    $\mathrm{sigmoid}(k(2t - 1))$, shifted and scaled to run from 0 to 1: slow at both ends, fast
    in the middle, the more so the larger k; k towards 0 is `linear`. In decoding that share of the
    tokens is committed after step i of T at t = i/T, so the first and the last steps commit few.

    Args:
        slope: k, > 0, at most 50.

    References:
        Chen, 2023, On the Importance of Noise Scheduling (arXiv:2301.10972), with the start, end
        and tau of its sigmoid joined in one slope; its -3, 3, 1 is the default.
    """

    slope: Annotated[float, Field(gt=0, le=50)] = 3.0

    def mask_prob(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at time t in [0, 1]; 0 at t=0, 1 at t=1."""
        k = self.slope  # the difference of two tanh as one product, which does not cancel at 0
        rise = torch.sinh(k * t) / (2 * math.sinh(k / 2) * torch.cosh(k * (0.5 - t)))
        return rise.clamp(max=1).masked_fill(t >= 1, 1)

    def rate(self, t: Tensor) -> Tensor:
        """d/dt of `mask_prob`, > 0; largest at t = 1/2."""
        k = self.slope
        return k / (2 * math.tanh(k / 2) * torch.cosh(k * (t - 0.5)) ** 2)

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps; they sum to `num_masked`."""
        return spread(num_masked, steps, self.mask_prob)
