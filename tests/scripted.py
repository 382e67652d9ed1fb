"""A key whose numbers are written down, so that a plan can be led through all its draws."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dllmzoo.records import Key

HIDDEN = 0.0
"""A number that hides a slot at any rate above 0."""
SHOWN = 1 - 2**-24
"""The largest number; it hides a slot at a rate of 1 only."""


@dataclass(frozen=True)
class Scripted(Key):
    """Gives the numbers written under a sub-purpose (`size`, `draw0/place`), stretched to fit.

    Args:
        numbers: sub-purpose -> (B, ...), float64; further axes are stretched.
    """

    numbers: Mapping[str, Tensor] = field(default_factory=dict)

    def uniform(self, sample_B: Tensor, *shape: int) -> Tensor:
        """What is written under the key's purpose."""
        value = self.numbers[self.purpose.partition("/")[2]]
        missing = len(shape) + 1 - value.ndim
        return value.reshape(*value.shape, *[1] * missing).expand(len(sample_B), *shape)


def script(**numbers: Tensor) -> Scripted:
    """A key with these numbers; `draw0__place` stands for `draw0/place`."""
    named = {name.replace("__", "/"): value.double() for name, value in numbers.items()}
    return Scripted(0, 0, "views", numbers=named)


def hiding(mask_BL: Tensor) -> Tensor:
    """Numbers by which `independent_slots` hides exactly the given slots, (B, L, 2)."""
    high_BL = torch.where(mask_BL, HIDDEN, SHOWN).double()
    return torch.stack([high_BL, torch.zeros_like(high_BL)], 2)


def ranking(mask_BL: Tensor) -> Tensor:
    """Numbers by which `random_subset` takes the given slots first, (B, L)."""
    return torch.where(mask_BL, 0.25, 0.75).double()
