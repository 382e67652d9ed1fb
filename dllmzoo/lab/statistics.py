"""Means over seeds: t intervals, paired differences, verdicts, and costs to reach a score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

T95 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788,
    2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
    2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
"""97.5 % quantiles of Student's t with 1, 2, ... 30 degrees of freedom."""
Z95 = 1.959964

Verdict = Literal["higher", "lower", "not told apart"]


@dataclass(frozen=True)
class Mean:
    """A mean over seeds and its 95 % t interval.

    Args:
        value: the mean.
        low, high: ends of the interval; None of fewer than two numbers.
        number: of seeds.
    """

    value: float
    low: float | None
    high: float | None
    number: int


@dataclass(frozen=True)
class Pair:
    """Two methods on the same seeds.

    Args:
        one, other: their names.
        difference: mean of `one` minus `other`, with the t interval of the differences.
        verdict: of `one` against `other`: told apart where the interval leaves out 0.
    """

    one: str
    other: str
    difference: Mean
    verdict: Verdict


def t_quantile(freedom: int) -> float:
    """97.5 % quantile of Student's t.

    Beyond the table by the expansion in 1 / freedom (Abramowitz and Stegun, 1964, eq. 26.7.5).

    Args:
        freedom: degrees of freedom, >= 1.
    """
    if freedom <= len(T95):
        return T95[freedom - 1]
    z = Z95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def mean_interval(values: Sequence[float]) -> Mean:
    """Mean and 95 % t interval of independent numbers.

    Example:
        >>> found = mean_interval([1.0, 2.0, 3.0])  # deviation 1, t = 4.3027 with 2 degrees
        >>> round(found.value, 3), round(found.high, 3)
        (2.0, 4.484)
    """
    number = len(values)
    if not number:
        return Mean(math.nan, None, None, 0)
    mean = math.fsum(values) / number
    if number == 1:
        return Mean(mean, None, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (number - 1)
    spread = t_quantile(number - 1) * math.sqrt(variance / number)
    return Mean(mean, mean - spread, mean + spread, number)


def verdict(difference: Mean) -> Verdict:
    """What an interval of a difference says; one seed tells nothing apart."""
    if difference.low is not None and difference.low > 0:
        return "higher"
    if difference.high is not None and difference.high < 0:
        return "lower"
    return "not told apart"


def pairs(finals: Mapping[str, Mapping[int, float]]) -> list[Pair]:
    """Every two methods, compared seed by seed.

    Args:
        finals: method -> seed -> final score. Seeds that only one of two has are left out.
    """
    found = []
    for (one, first), (other, second) in combinations(finals.items(), 2):
        shared = [seed for seed in first if seed in second]
        if shared:
            difference = mean_interval([first[seed] - second[seed] for seed in shared])
            found.append(Pair(one, other, difference, verdict(difference)))
    return found


def first_reach(scores: Sequence[float], target: float) -> int | None:
    """Index of the first evaluation at or above the target; None if there is none.

    Example:
        >>> first_reach([0.2, 0.5, 0.4, 0.6], 0.5)
        1
    """
    for index, score in enumerate(scores):
        if score >= target:
            return index
    return None


def between(mean: Mean, digits: int = 3) -> str:
    """The interval as `0.370 to 0.414`; empty of one seed."""
    if mean.low is None or mean.high is None:
        return ""
    return f"{mean.low:.{digits}f} to {mean.high:.{digits}f}"
