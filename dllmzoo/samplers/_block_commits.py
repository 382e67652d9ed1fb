"""Which masked slots of a block a step commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from dllmzoo.samplers._candidates import Candidates
from dllmzoo.samplers._canvas import spread_out

Remask = Literal["static", "dynamic", "sequential", "entropy_bound"]
"""How the slots to commit are chosen; the others stay masked."""


@dataclass(frozen=True)
class Choice:
    """The rule of a sampler.

    Args:
        remask: `static` the n most confident; `dynamic` all of confidence > `threshold` if these
            are n at least, else the n most confident; `sequential` the n leftmost;
            `entropy_bound` as many of lowest entropy as `bound` allows. At least one, and masked
            slots only; ties go to the smaller position.
        threshold: of `dynamic`.
        bound: of `entropy_bound`, nats: of the chosen slots the entropies but for the largest
            add up to this at most.
    """

    remask: Remask
    threshold: float
    bound: float

    def __call__(self, found: Candidates, at_RN: Tensor, count_R: Tensor) -> Tensor:
        """chosen_RN, bool.

        Args:
            found: a candidate for every masked slot of the active block.
            at_RN: bool, those slots.
            count_R: n of each row, >= 1.
        """
        if self.remask == "sequential":
            return at_RN & (at_RN.cumsum(1) <= count_R.unsqueeze(1))
        if self.remask == "entropy_bound":
            entropy_RN = spread_out(found.entropy_S.double(), at_RN, torch.inf)
            return _first(entropy_RN, at_RN, self._within_bound(entropy_RN))
        confidence_RN = spread_out(found.confidence_S, at_RN, -torch.inf)
        chosen_RN = _first(-confidence_RN, at_RN, count_R)
        if self.remask == "static":
            return chosen_RN
        sure_RN = at_RN & (confidence_RN > self.threshold)
        enough_R1 = (sure_RN.sum(1) >= count_R).unsqueeze(1)
        return torch.where(enough_R1, sure_RN, chosen_RN)

    def _within_bound(self, entropy_RN: Tensor) -> Tensor:
        """count_R: how many of the lowest entropies may be taken together."""
        sorted_RN = entropy_RN.sort(dim=1).values
        smaller_RN = pad(sorted_RN.cumsum(1)[:, :-1], (1, 0))  # all of a prefix but its largest
        return (smaller_RN <= self.bound).sum(1).clamp(min=1)


def _first(rank_RN: Tensor, at_RN: Tensor, count_R: Tensor) -> Tensor:
    """The `count_R` marked slots of lowest rank in each row; what is not a number comes last."""
    number_RN = rank_RN.nan_to_num(nan=torch.finfo(rank_RN.dtype).max)
    order_RN = torch.where(at_RN, number_RN, torch.inf).argsort(dim=1, stable=True)
    place_N = torch.arange(at_RN.shape[1], device=at_RN.device)
    first_RN = place_N < count_R.unsqueeze(1)
    return torch.zeros_like(at_RN).scatter(1, order_RN, first_RN) & at_RN
