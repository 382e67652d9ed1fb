"""How many tokens each denoising step commits: whole numbers that add up."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from dllmzoo.errors import UsageError

ROUNDING = 1e-9
"""Slack of the floor below: 2.9999999999 tokens are 3."""


def spread_evenly(num_masked: int, steps: int) -> list[int]:
    """`num_masked` shared evenly over `steps`; what does not divide goes to the first steps.

    Example:
        >>> spread_evenly(8, 3)
        [3, 3, 2]

    Raises:
        UsageError: `steps` is below 1 or `num_masked` below 0.
    """
    check_commits(num_masked, steps)
    share, extra = divmod(num_masked, steps)
    return [share + (step < extra) for step in range(steps)]


def spread(num_masked: int, steps: int, committed: Callable[[Tensor], Tensor]) -> list[int]:
    """Commits that follow a curve, at least one token a step as long as there are tokens.

    After step i of T at most `num_masked * (1 - committed(i / T))` tokens, rounded down, stay
    masked; the last step leaves none.

    Args:
        num_masked: tokens to commit in all, >= 0.
        steps: T, >= 1.
        committed: share of the tokens committed at progress r in [0, 1]; 0 at 0, 1 at 1, rising.

    Raises:
        UsageError: `steps` is below 1 or `num_masked` below 0.
    """
    check_commits(num_masked, steps)
    progress = torch.arange(1, steps + 1, dtype=torch.float64) / steps
    counts = []
    left = num_masked
    for step, share in enumerate((1 - committed(progress)).tolist(), start=1):
        most = max(left - 1, 0)
        least = min(steps - step, most)
        after = min(max(math.floor(num_masked * share + ROUNDING), least), most)
        counts.append(left - (0 if step == steps else after))
        left = after
    return counts


def check_commits(num_masked: int, steps: int) -> None:
    """Refuse numbers that no commits can add up to.

    Raises:
        UsageError: `steps` is below 1 or `num_masked` below 0.
    """
    if steps < 1:
        raise UsageError(f"commits are shared over {steps} steps; use at least 1 step")
    if num_masked < 0:
        raise UsageError(f"{num_masked} masked tokens cannot be committed; use 0 or more")
