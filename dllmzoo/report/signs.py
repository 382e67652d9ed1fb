"""Signs that a run goes wrong, read off its metrics: sentences for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

Row = dict[str, Any]

LATEST = 10
"""Rounds that "lately" means."""
DEAD = 0.5
"""Share of groups with equal rewards from which on most prompts teach nothing."""
FEW = 0.1
"""Effective sample size, as a share, below which a few units carry the update."""
HELD = 0.5
"""Clip fraction above which the clip holds back more than it lets through."""
SPIKE = 100.0
"""A gradient norm so many times the run's median is a spike."""
CERTAIN = 0.05
"""Share of its first value below which the entropy of answers counts as gone."""


def warnings(rows: Sequence[Row], primary: str | None) -> list[str]:
    """One sentence for each sign; nothing where all looks well.

    Args:
        rows: of metrics.jsonl.
        primary: key of the main metric's evaluation, None if there was none.
    """
    trained = [row for row in rows if row.get("round", 0) > 0]
    found = [*_broken(rows), *_fallen(rows, primary), *_lately(trained), *_spike(trained)]
    return found


def _broken(rows: Sequence[Row]) -> Iterator[str]:
    """Values that are no numbers; `null` means that nothing counted, which is no fault."""
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    for row in rows:
        for key, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                first.setdefault(key, row["round"])
                count[key] = count.get(key, 0) + 1
    for key, number in count.items():
        yield f"{key} was not finite in {_rounds(number)}, first in round {first[key]}"


def _fallen(rows: Sequence[Row], primary: str | None) -> Iterator[str]:
    """An evaluation whose interval lies below that of the start."""
    if primary is None:
        return
    known = [row for row in rows if _number(row, primary) is not None]
    if len(known) < 2:
        return
    low, high = _number(known[0], f"{primary}_low"), _number(known[-1], f"{primary}_high")
    if low is not None and high is not None and high < low:
        yield (
            f"{primary} fell below its start: {known[0][primary]:.3f} in round "
            f"{known[0]['round']}, {known[-1][primary]:.3f} in round {known[-1]['round']}, and "
            f"the intervals do not touch"
        )


def _lately(rows: Sequence[Row]) -> Iterator[str]:
    """Means over the last rounds that are out of bounds."""
    dead, ess = _mean(rows, "reward_zero_std_share"), _mean(rows, "ess_share")
    held, entropy = _mean(rows, "clip_fraction"), _mean(rows, "entropy")
    if dead is not None and dead >= DEAD:
        yield (
            f"dead groups: in {100 * dead:.0f} % of the groups all rewards are equal, which "
            f"teaches nothing; change the difficulty, train.group_size or the temperature"
        )
    if ess is not None and ess < FEW:
        yield f"effective sample size {ess:.3f}: a few ratios carry the update"
    if held is not None and held > HELD:
        yield f"clip fraction {held:.2f}: the clip holds back most of the update"
    first = next((v for row in rows if (v := _number(row, "entropy")) is not None), None)
    if entropy is not None and first and entropy < CERTAIN * first:
        yield f"entropy of the answers fell from {first:.3g} to {entropy:.3g} nats: all are alike"


def _spike(rows: Sequence[Row]) -> Iterator[str]:
    """The largest gradient of the run, where it dwarfs the others."""
    key = "grad_norm_max" if any("grad_norm_max" in row for row in rows) else "grad_norm"
    known = [(value, row["round"]) for row in rows if (value := _number(row, key)) is not None]
    if len(known) <= LATEST:
        return
    largest, round = max(known)
    usual = median(value for value, _ in known)
    if usual > 0 and largest > SPIKE * usual:
        times = largest / usual
        yield f"gradient norm {largest:.3g} in round {round}, {times:.0f} times the median"


def _mean(rows: Sequence[Row], key: str) -> float | None:
    values = [value for row in rows[-LATEST:] if (value := _number(row, key)) is not None]
    return sum(values) / len(values) if values else None


def _number(row: Row, key: str) -> float | None:
    value = row.get(key)
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def _rounds(number: int) -> str:
    return "1 round" if number == 1 else f"{number} rounds"
