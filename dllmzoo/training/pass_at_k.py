"""pass@k of n answers to each problem, and 95 % intervals of rates over problems."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z95 = 1.959964


def pass_at_k(num: int, correct: int, k: int) -> float:
    """Probability that one of k answers is right, without bias, from `num` answers.

    `1 - C(num - correct, k) / C(num, k)`: the share of k-subsets of the answers that hold a right
    one (Chen et al., 2021, arXiv:2107.03374, eq. 1). In whole numbers, rounded once at the end.

    Args:
        num: answers, >= k.
        correct: right ones among them, in [0, num].
        k: >= 1.

    Raises:
        ValueError: numbers that do not fit together.

    Example:
        >>> pass_at_k(4, 1, 2)  # 3 of the 6 pairs hold the right one
        0.5
    """
    if not (0 <= correct <= num and 1 <= k <= num):
        raise ValueError(f"pass@{k} of {num} answers, {correct} of them right, has no meaning")
    subsets = math.comb(num, k)
    return (subsets - math.comb(num - correct, k)) / subsets


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4, ... up to `most`: the k that are reported."""
    return [2**i for i in range(most.bit_length())]


def wilson(hits: float, outof: float) -> tuple[float, float]:
    """95 % interval of a rate (Wilson, 1927); (0, 1) of nothing.

    Example:
        >>> low, high = wilson(50, 100)
        >>> round(low, 3), round(high, 3)
        (0.404, 0.596)
    """
    if outof <= 0:
        return 0.0, 1.0
    rate, square = hits / outof, Z95**2
    middle = (rate + square / (2 * outof)) / (1 + square / outof)
    spread = math.sqrt(rate * (1 - rate) / outof + square / (4 * outof**2))
    spread *= Z95 / (1 + square / outof)
    return max(middle - spread, 0.0), min(middle + spread, 1.0)


def interval_over_problems(values: Sequence[float], draws: int) -> tuple[float, float]:
    """95 % interval of the mean of one number in [0, 1] for each problem.

    Answers to one problem are alike, so they count as fewer than they are. Wilson's interval of an
    effective number of answers, `p * (1 - p) / (variance of the values / problems)` (Korn and
    Graubard, 1998). It is held between the number of problems, which the variance allows at
    least, and that of independent draws, so it is wide, not empty, where all problems agree.

    Args:
        values: share right, or pass@k, of each problem.
        draws: of each problem that could be independent: n answers give n / k of pass@k, >= 1.

    Example:
        >>> [round(end, 3) for end in interval_over_problems([0.0, 0.0, 0.0], 8)]
        [0.0, 0.561]
    """
    problems = len(values)
    if not problems:
        return 0.0, 1.0
    mean = math.fsum(values) / problems
    spread = math.fsum((value - mean) ** 2 for value in values)
    number = float(problems)
    if 0 < mean < 1:
        most = problems * max(draws, 1)
        variance = spread / max(problems - 1, 1) / problems
        number = most if variance == 0 else mean * (1 - mean) / variance
        number = min(max(number, problems), most)
    return wilson(mean * number, number)
