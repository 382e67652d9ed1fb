"""Schedule whose steps commit a share of what is still masked."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.schedules._commits import check_commits
from dllmzoo.zoo import SCHEDULES


@SCHEDULES.register("share_of_rest", aliases=("dream",))
@dataclass(frozen=True)
class ShareOfRest:
    r"""Mask probability t; each step commits a share of what is left, the last step the rest.

    The commit rule of Dream: time runs from 1 to `eps` in T equal steps, and the step from t to
    t' commits the share 1 - t'/t of what is still masked, rounded down. Without the rounding that
    would be equally many at every step; with it the first steps may commit nothing, and the last
    one commits what has been left over, several tokens at once even where T is the answer's length.

    Args:
        eps: time at which decoding ends, in [0, 1); Dream's 0.001.

    References:
        Ye et al., 2025, Dream 7B (arXiv:2508.15487), its released decoding. Differs from it in: a
        row's own masked tokens count, not the average of a batch. Numbers are float32 as there.
    """

    eps: Annotated[float, Field(ge=0, lt=1)] = 1e-3

    def mask_prob(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at time t in [0, 1]; 0 at t=0, 1 at t=1."""
        return t

    def rate(self, t: Tensor) -> Tensor:
        """d/dt of `mask_prob`: 1 everywhere."""
        return torch.ones_like(t)

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps; they sum to `num_masked`."""
        check_commits(num_masked, steps)
        time = torch.linspace(1, self.eps, steps + 1, dtype=torch.float32)
        share = 1 - time[1:] / time[:-1]
        counts, left = [], num_masked
        for each in share[:-1]:
            counts.append(int(left * each))
            left -= counts[-1]
        return [*counts, left]
