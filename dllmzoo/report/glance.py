"""A run in a few numbers: where it stands, how it learns, what looks wrong; imports no torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from dllmzoo.report.folders import primary_of, read_manifest
from dllmzoo.report.rows import finite, read_rows
from dllmzoo.report.signs import warnings

Row = dict[str, Any]

KEYS = ("reward", "loss", "kl", "clip_fraction", "grad_norm")
"""Curves that are shown; the rollouts' main metric stands after the reward."""
PATIENCE = 3.0
"""A run is taken for alive while its last line is younger than this many of its longest rounds."""
LEAST_SECONDS, FIRST_SECONDS = 60.0, 600.0
"""How long it may be silent anyway; and before its first line, while weights are loaded."""


def glance(folder: Path, now: float | None = None) -> dict[str, Any]:
    """What `show run` says of a run, as plain values.

    Args:
        folder: of the run.
        now: seconds since the epoch, to judge whether the run is still alive.

    Returns:
        `folder title method stage seed state why silent rounds planned seconds evaluation curves
        times warnings`; docs/cli.md says what they are.
    """
    rows, manifest = read_rows(folder / "metrics.jsonl"), read_manifest(folder)
    recipe = _recipe(folder)
    primary = primary_of(rows)
    state, why, silent = _state(folder, manifest, rows, time.time() if now is None else now)
    return {
        "folder": str(folder),
        "title": manifest.get("title") or recipe.get("title") or "",
        "method": manifest.get("method"),
        "stage": manifest.get("stage") or recipe.get("stage"),
        "seed": manifest.get("seed"),
        "state": state,
        "why": why,
        "silent": silent,
        "rounds": rows[-1]["round"] if rows else 0,
        "planned": (recipe.get("train") or {}).get("rounds"),
        "seconds": last_of(rows, "time/elapsed"),
        "evaluation": _evaluation(rows, primary),
        "curves": _curves(rows, primary),
        "times": _times(rows),
        "warnings": warnings(rows, primary),
    }


def stopped(manifest: dict[str, Any]) -> str:
    """What ended a run before its time, as the manifest has it; nothing if nothing did."""
    found = manifest.get("stopped")
    return "" if not isinstance(found, dict) else f"{found.get('by')}: {found.get('why')}"


def last_of(rows: Sequence[Row], key: str) -> float | None:
    """The last value of a key that is a number."""
    return next((v for row in reversed(rows) if (v := finite(row.get(key))) is not None), None)


def _state(
    folder: Path, manifest: dict[str, Any], rows: Sequence[Row], now: float
) -> tuple[str, str, float | None]:
    """`finished`, `stopped`, `running` or `silent`; by what it was stopped; seconds of silence."""
    if manifest.get("finished"):
        return "finished", "", None
    if why := stopped(manifest):
        return "stopped", why, None
    files = [folder / name for name in ("metrics.jsonl", "manifest.json", "recipe.resolved.yaml")]
    newest = max(file.stat().st_mtime for file in files if file.is_file())
    silent = max(now - newest, 0.0)
    ends = [value for row in rows if (value := finite(row.get("time/elapsed"))) is not None]
    longest = max((b - a for a, b in pairwise(ends)), default=0.0)
    allowed = max(LEAST_SECONDS, PATIENCE * longest) if len(ends) > 1 else FIRST_SECONDS
    return ("running" if silent <= allowed else "silent"), "", silent


def _recipe(folder: Path) -> dict[str, Any]:
    from dllmzoo.report.settings import read_recipe

    return read_recipe(folder)


def _evaluation(rows: Sequence[Row], primary: str | None) -> dict[str, Any] | None:
    """First, last and best evaluation of the main metric, each `round value low high`."""
    if primary is None:
        return None
    found = [
        {
            "round": row["round"], "value": value,
            "low": finite(row.get(f"{primary}_low")), "high": finite(row.get(f"{primary}_high")),
        }
        for row in rows
        if (value := finite(row.get(primary))) is not None
    ]  # fmt: skip
    if not found:
        return None
    best = max(found, key=lambda each: each["value"])
    return {
        "metric": primary.removeprefix("eval/"), "first": found[0], "last": found[-1], "best": best
    }  # fmt: skip


def _curves(rows: Sequence[Row], primary: str | None) -> list[dict[str, Any]]:
    """`key rounds values` of each curve that has a value; those of round 0 have none."""
    rollout = [] if primary is None else [primary.replace("eval/", "rollout/", 1)]
    has_reward = any("reward" in row for row in rows)
    wanted = [key for key in KEYS if key != "loss" or not has_reward]
    made = []
    for key in [wanted[0], *rollout, *wanted[1:]]:
        having = [row for row in rows if key in row]
        values = [finite(row[key]) for row in having]
        if any(value is not None for value in values):
            made.append({"key": key, "rounds": [r["round"] for r in having], "values": values})
    return made


def _times(rows: Sequence[Row]) -> dict[str, float]:
    """Mean seconds of a round by part, over the rounds that had the part; round 0 left out."""
    parts: dict[str, list[float]] = {}
    for row in rows:
        for key, value in row.items():
            known = finite(value)
            if key.startswith("time/") and row["round"] > 0 and known is not None:
                parts.setdefault(key.removeprefix("time/"), []).append(known)
    parts.pop("elapsed", None)
    return {name: sum(values) / len(values) for name, values in parts.items()}
