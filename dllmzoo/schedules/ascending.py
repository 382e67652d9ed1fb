"""Ascending masking schedule: step sizes that double."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.schedules._commits import spread
from dllmzoo.zoo import SCHEDULES


@SCHEDULES.register("ascending")
@dataclass(frozen=True)
class Ascending:
    r"""Decoding commits 1, 2, 4, 8, ... tokens and the rest in the last step.

    N tokens take S = floor(log2 N) steps: 2^s tokens at step s < S - 1, then all that are left
    (N = 128: 1, 2, 4, 8, 16, 32, 65). So few steps that all of them can be trained. Any other
    number of steps follows the same curve, $2^{S i/T} - 1$ tokens after step i of T, at least one a
    step as long as there are tokens, and the rest in the last: fewer steps grow by a larger
    factor, more steps by a smaller one. With blocks, N and S are those of each block.

    As noise, masked tokens double at equal time steps: $(2^{St} - 1) / (2^S - 1)$ is the mask
    probability at t, very little for most of the time.

    Args:
        doublings: S of the noise law, > 0; `commits` takes S from the number of tokens.

    References:
        Yang et al., 2025, CJ-GRPO (arXiv:2509.23924), ascending step sizes. Differs from it in:
        other numbers of steps than S are no error; the noise law is ours.
    """

    doublings: Annotated[float, Field(gt=0, le=64)] = 7.0

    def mask_prob(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at time t in [0, 1]; 0 at t=0, 1 at t=1."""
        growth = self.doublings * math.log(2)
        return (torch.expm1(growth * t) / math.expm1(growth)).clamp(max=1).masked_fill(t >= 1, 1)

    def rate(self, t: Tensor) -> Tensor:
        """d/dt of `mask_prob`, > 0."""
        growth = self.doublings * math.log(2)
        return growth * torch.exp(growth * t) / math.expm1(growth)

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps; they sum to `num_masked`."""
        S = max(num_masked, 1).bit_length() - 1

        def committed(progress: Tensor) -> Tensor:
            share = (2 ** (S * progress) - 1) / max(num_masked, 1)
            return share.masked_fill(progress >= 1, 1)

        return spread(num_masked, steps, committed)
