"""What a run's rows say: its score against what was spent to reach it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NOT_TRAINING = ("time/elapsed", "time/evaluate")
"""Seconds in a row that are not spent on training."""


@dataclass(frozen=True)
class Point:
    """One evaluation of a run, and everything spent on training before it.

    Args:
        round: after which it was made; 0 = before any training.
        updates: of the optimiser.
        samples: answers drawn.
        flops: forward and backward, of rollouts, scoring and training; evaluation is not counted.
        seconds: wall time of the same.
        value: of the metric.
    """

    round: int
    updates: int
    samples: int
    flops: float
    seconds: float
    value: float


COSTS = ("flops", "samples", "updates", "seconds")
"""Fields of a point that say what was spent."""


def curve(rows: Sequence[dict[str, Any]], metric: str, samples: int) -> list[Point]:
    """The evaluations of a run.

    Args:
        rows: of metrics.jsonl.
        metric: a key, `eval/solved_rate`; rows without it (or with null) are left out.
        samples: answers drawn in a round.
    """
    points, flops, seconds = [], 0.0, 0.0
    for row in rows:
        flops += row.get("flops") or 0.0
        seconds += training_seconds(row)
        value = row.get(metric)
        if value is not None:
            spent = samples * row["round"], flops, seconds
            points.append(Point(row["round"], row["update"], *spent, value))
    return points


def spent(rows: Sequence[dict[str, Any]], samples: int) -> dict[str, float]:
    """Everything that a run spent on training, whenever it was last evaluated."""
    last = rows[-1] if rows else {"round": 0, "update": 0}
    return {
        "flops": sum(row.get("flops") or 0.0 for row in rows),
        "samples": samples * last["round"],
        "updates": last["update"],
        "seconds": sum(map(training_seconds, rows)),
    }


def training_seconds(row: dict[str, Any]) -> float:
    """Wall seconds of a round without its evaluation."""
    return sum(
        value
        for name, value in row.items()
        if name.startswith("time/") and name not in NOT_TRAINING
    )
