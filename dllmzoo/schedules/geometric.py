"""Geometric masking schedule."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.schedules._commits import spread
from dllmzoo.zoo import SCHEDULES


@SCHEDULES.register("geometric")
@dataclass(frozen=True)
class Geometric:
    r"""Total noise that grows by equal factors, from sigma_min to sigma_max.

    A token survives with probability $e^{-\sigma(t)}$, where
    $\sigma(t) = \sigma_{min}^{1-t} \sigma_{max}^{t}$; the mask probability $1 - e^{-\sigma(t)}$ is
    shifted and scaled to run from 0 to 1. Most of its rise falls where sigma passes 1. In decoding
    that share of the tokens is committed after step i of T at t = i/T: few first, many in between.

    Args:
        sigma_min: total noise at t = 0, > 0.
        sigma_max: total noise at t = 1, > sigma_min; above about 20 nothing changes but the time.

    References:
        Lou et al., 2024, SEDD (arXiv:2310.16834): the noise and its two defaults. Differs from it
        in: the ends are exactly 0 and 1, while 1 - exp(-sigma) misses both by a little.
    """

    sigma_min: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-4
    sigma_max: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 20.0

    def __post_init__(self) -> None:
        """Refuse a noise that does not grow."""
        if self.sigma_max <= self.sigma_min:
            raise UsageError(
                f"sigma_max {self.sigma_max} is not above sigma_min {self.sigma_min}; total noise "
                f"grows from the second to the first"
            )

    def mask_prob(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at time t in [0, 1]; 0 at t=0, 1 at t=1."""
        gain = torch.expm1(self._growth * t) * self.sigma_min  # sigma(t) - sigma_min
        return (torch.expm1(-gain) / math.expm1(self.sigma_min - self.sigma_max)).clamp(max=1)

    def rate(self, t: Tensor) -> Tensor:
        """d/dt of `mask_prob`, > 0."""
        sigma = self.sigma_min * torch.exp(self._growth * t)
        slope = torch.exp(self.sigma_min - sigma) * sigma * self._growth
        return slope / -math.expm1(self.sigma_min - self.sigma_max)

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps; they sum to `num_masked`."""
        return spread(num_masked, steps, self.mask_prob)

    @property
    def _growth(self) -> float:
        """Logarithm of the factor by which total noise grows from t=0 to t=1."""
        return math.log(self.sigma_max / self.sigma_min)
