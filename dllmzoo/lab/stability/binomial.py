"""Exact interval of a share of seeds."""

from __future__ import annotations

import math
from collections.abc import Callable


def exact_interval(hits: int, outof: int) -> tuple[float, float]:
    """95 % interval of a probability from `hits` of `outof` (Clopper and Pearson, 1934).

    The probabilities at which as few, or as many, hits have a chance of 2.5 %; (0, 1) of nothing.

    Example:
        >>> low, high = exact_interval(5, 5)  # low^5 = 0.025
        >>> round(low, 3), high
        (0.478, 1.0)
    """
    low = 0.0 if hits == 0 else _root(lambda p: at_most(hits - 1, outof, p) - 0.975)
    high = 1.0 if hits == outof else _root(lambda p: at_most(hits, outof, p) - 0.025)
    return low, high


def at_most(hits: int, outof: int, probability: float) -> float:
    """Chance of `hits` or fewer."""
    return math.fsum(
        math.comb(outof, k) * probability**k * (1 - probability) ** (outof - k)
        for k in range(hits + 1)
    )


def _root(falling: Callable[[float], float]) -> float:
    """Where a falling function of a probability passes 0."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2
