"""Time to collapse: which of three signs a run showed, and when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

Sign = Literal["not finite", "gradient", "solved rate"]

LOW_EVALUATIONS = 3
"""Evaluations in a row below half of the start."""

FLOOR = 0.5
"""Share of the start that counts as low."""

BLOW_UP = 1e3
"""Largest gradient norm over the first one."""


Signs = dict[Sign, int]
"""Sign -> optimiser updates made when it showed."""


def signs(rows: Sequence[dict[str, Any]], primary: str, *, stopped: bool) -> Signs:
    """The signs of collapse that a run showed, and when; empty if it did not collapse.

    Three signs: a number that is not finite, or an update that was refused for that reason; a
    gradient norm before clipping above 1e3 times that of the first round with a gradient (the mean
    of its updates); the greedy solved rate below half its start in three evaluations in a row. The
    first two show at the end of their round, the third at the first of the low evaluations.

    Args:
        rows: of metrics.jsonl, that of round 0 first.
        primary: metric of the task, as in `eval/NAME`.
        stopped: whether a health check ended the run.
    """
    found: list[tuple[Sign, int | None]] = [
        ("not finite", _not_finite(rows, stopped)),
        ("gradient", _blown_up(rows)),
        ("solved rate", _fallen(rows, f"eval/{primary}")),
    ]
    return {sign: update for sign, update in found if update is not None}


def _not_finite(rows: Sequence[dict[str, Any]], stopped: bool) -> int | None:
    for row in rows:
        numbers = [value for value in row.values() if isinstance(value, float)]
        if not all(map(math.isfinite, numbers)):
            return row["update"]
    if stopped:
        return (rows[-1]["update"] if rows else 0) + 1
    return None


def _blown_up(rows: Sequence[dict[str, Any]]) -> int | None:
    trained = [row for row in rows if row.get("grad_norm")]
    first = trained[0]["grad_norm"] if trained else math.inf
    for row in trained:
        if row["grad_norm_max"] > BLOW_UP * first:
            return row["update"]
    return None


def _fallen(rows: Sequence[dict[str, Any]], metric: str) -> int | None:
    evaluated = [(row["update"], row[metric]) for row in rows if row.get(metric) is not None]
    if not evaluated:
        return None
    start, low = evaluated[0][1], 0
    for i, (_, value) in enumerate(evaluated):
        low = low + 1 if value < FLOOR * start else 0
        if low == LOW_EVALUATIONS:
            return evaluated[i - LOW_EVALUATIONS + 1][0]
    return None
