"""A curve on one line of text: blocks of eight heights, or ASCII where the terminal has none."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-~=+*#"
"""Eight marks that rise by eye."""
GAP = " "
"""Stands where there is no value."""


def sparkline(values: Sequence[float | None], width: int = 32) -> str:
    """The values from left to right, lowest to highest; all equal = a line in the middle.

    Args:
        values: None or not finite = a gap.
        width: most columns; more values are drawn as means of neighbours.
    """
    columns = _means(values, width)
    known = [value for value in columns if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    marks = BLOCKS if has_blocks() else ASCII
    return "".join(GAP if value is None else marks[_height(value, low, high)] for value in columns)


def has_blocks() -> bool:
    """Whether standard output can write the blocks."""
    try:
        BLOCKS.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _height(value: float, low: float, high: float) -> int:
    if low == high:
        return len(BLOCKS) // 2 - 1
    return min(int((value - low) / (high - low) * len(BLOCKS)), len(BLOCKS) - 1)


def _means(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` means of neighbours; None where no neighbour has a value."""
    count = min(len(values), width)
    made: list[float | None] = []
    for i in range(count):
        part = values[i * len(values) // count : (i + 1) * len(values) // count]
        known = [value for value in part if value is not None and math.isfinite(value)]
        made.append(sum(known) / len(known) if known else None)
    return made
