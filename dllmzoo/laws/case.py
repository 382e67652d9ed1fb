"""One generated input of a law: every number follows from its seed, every size from its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from dllmzoo.records import Key

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """A source of keyed numbers: the same tag gives the same number, whatever else was drawn.

    A law draws all it needs from its case, so that a counter-example is two integers.

    Args:
        seed: any integer.
        size: >= 0; 0 draws the smallest inputs a law is about, 4 is ordinary.

    Example:
        >>> Case(7).integer("rows", 1, 9) == Case(7).integer("rows", 1, 9)
        True
    """

    seed: int
    size: int = 4

    def key(self, purpose: str, pass_: int = 0) -> Key:
        """The key that a component is called with."""
        return Key(self.seed, 0, purpose, pass_)

    def generator(self, tag: str) -> torch.Generator:
        """A fresh CPU generator of this tag."""
        return Key(self.seed, 0, f"law/{tag}").generator()

    def integer(self, tag: str, low: int, high: int) -> int:
        """A whole number in [low, high], at most `low` + `size`."""
        top = min(high, low + self.size)
        return int(torch.randint(low, top + 1, (), generator=self.generator(tag)))

    def among(self, tag: str, options: Sequence[T]) -> T:
        """One of the options."""
        return options[int(torch.randint(len(options), (), generator=self.generator(tag)))]

    def truth(self, tag: str, prob: float = 0.5) -> bool:
        """True with the given probability."""
        return bool(torch.rand((), generator=self.generator(tag)) < prob)

    def uniform(self, tag: str, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """float32 in [low, high)."""
        return low + (high - low) * torch.rand(shape, generator=self.generator(tag))

    def normal(self, tag: str, *shape: int, scale: float = 1.0) -> Tensor:
        """float32, mean 0."""
        return scale * torch.randn(shape, generator=self.generator(tag))

    def integers(self, tag: str, low: int, high: int, *shape: int) -> Tensor:
        """int64 in [low, high], both included."""
        return torch.randint(low, high + 1, shape, generator=self.generator(tag))

    def order(self, tag: str, count: int) -> Tensor:
        """A permutation of range(count)."""
        return torch.randperm(count, generator=self.generator(tag))
