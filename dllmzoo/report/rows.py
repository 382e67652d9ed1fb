"""The rows of a run as columns: read as far as they are whole, thinned where there are many."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

POINTS = 500
"""Most points of a line, about; more rounds are drawn in bins."""


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Every complete line of metrics.jsonl; what follows a torn line is left out."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    rows = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not isinstance(row, dict) or "round" not in row:
            break
        rows.append(row)
    return rows


def columns(rows: Sequence[dict[str, Any]], points: int = POINTS) -> tuple[dict[str, list], int]:
    """Key -> values, None where a row has none; and how many rounds a bin holds at most.

    A bin stands at its last round and holds the mean of its rounds: of a key in `_max` the
    largest, of `ratio_q01` the smallest, of counts of progress the last. An evaluation ends a
    bin, so that it stays where it was made.
    """
    size = max(math.ceil(len(rows) / points), 1)
    binned = [_bin(each) for each in _bins(rows, size, points)]
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in binned] for key in keys}, size


def finite(value: Any) -> float | None:
    """A number that JSON can hold, to six digits; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _bins(rows: Sequence[dict[str, Any]], size: int, points: int) -> Iterator[list[dict[str, Any]]]:
    evaluated = [any(key.startswith("eval/") for key in row) for row in rows]
    cut = sum(evaluated) <= points
    held: list[dict[str, Any]] = []
    for row, has in zip(rows, evaluated, strict=True):
        held.append(row)
        if len(held) == size or (cut and has):
            yield held
            held = []
    if held:
        yield held


def _bin(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    if len(rows) == 1:
        return {key: finite(value) for key, value in rows[0].items()}
    made: dict[str, float | None] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        values = [v for row in rows if (v := finite(row.get(key))) is not None]
        if not values:
            made[key] = None
        elif key in ("round", "update", "time/elapsed", "_flops"):
            made[key] = values[-1]
        elif key.endswith("_max") or key == "memory_peak":
            made[key] = max(values)
        elif key == "ratio_q01":
            made[key] = min(values)
        else:
            made[key] = finite(math.fsum(values) / len(values))
    return made
