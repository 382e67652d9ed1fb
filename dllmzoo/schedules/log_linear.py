"""Log-linear masking schedule."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.schedules._commits import spread
from dllmzoo.zoo import SCHEDULES


@SCHEDULES.register("log_linear")
@dataclass(frozen=True)
class LogLinear:
    r"""Total noise proportional to -log(1 - t): mask probability 1 - (1 - t)^a.

    A token survives with probability $e^{-\sigma(t)}$, and $\sigma(t) = -a \log(1 - t)$. At scale
    1 this is the noise of SEDD and MDLM and masks like `linear`; above 1 it masks much early. In
    decoding that share of the tokens is committed after step i of T at t = i/T, so a scale above 1
    commits many tokens first. `power` is the same curve seen from the other end.

    Args:
        scale: a, >= 1.

    References:
        Lou et al., 2024, SEDD (arXiv:2310.16834); Sahoo et al., 2024, MDLM (arXiv:2406.07524).
        Differs from them in: no eps keeps sigma finite at t = 1, since only the mask probability
        is read, so that t = 1 masks everything; the scale is ours.
    """

    scale: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0

    def mask_prob(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at time t in [0, 1]; 0 at t=0, 1 at t=1."""
        if self.scale == 1:
            return t
        return -torch.expm1(self.scale * torch.log1p(-t))  # 1 - (1 - t)^a would cancel near 0

    def rate(self, t: Tensor) -> Tensor:
        """d/dt of `mask_prob`, >= 0."""
        return self.scale * (1 - t) ** (self.scale - 1)

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps; they sum to `num_masked`."""
        return spread(num_masked, steps, self.mask_prob)
