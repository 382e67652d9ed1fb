"""Power masking schedule."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor

from dllmzoo.schedules._commits import spread
from dllmzoo.zoo import SCHEDULES


@SCHEDULES.register("power")
@dataclass(frozen=True)
class Power:
    r"""Mask probability t^a; decoding has committed the share (i/T)^a after step i of T.

    As noise, an exponent above 1 masks little for most of the time, one below 1 much. In decoding
    the first commits few tokens while the canvas is nearly empty, the second many. Exponent 1 is
    `linear`, but for rounding: what does not divide goes to the first steps there.

    Args:
        exponent: a, > 0.

    References:
        Shi et al., 2024, Simplified and Generalized Masked Diffusion (arXiv:2406.04329): the
        polynomial noise law. Chang et al., 2022, MaskGIT (arXiv:2202.04200): square, cubic and
        square-root decoding. Differs from them in: each later step keeps a token to commit.
    """

    exponent: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0

    def mask_prob(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at time t in [0, 1]; 0 at t=0, 1 at t=1."""
        return t**self.exponent

    def rate(self, t: Tensor) -> Tensor:
        """d/dt of `mask_prob`; unbounded towards t=0 where the exponent is below 1."""
        return self.exponent * t ** (self.exponent - 1)

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps; they sum to `num_masked`."""
        return spread(num_masked, steps, self.mask_prob)
