"""A run folder as plain data: all that its part of a page shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dllmzoo.errors import UsageError
from dllmzoo.report.answers import changed, read_outcomes, table
from dllmzoo.report.keys import charts
from dllmzoo.report.rows import POINTS, columns, read_rows
from dllmzoo.report.settings import differences, flat, read_recipe
from dllmzoo.report.traces import read_run

TRACE_BYTES = 1_200_000
"""Of all runs of a page together."""
ALL_POINTS, FEWEST_POINTS = 2000, 60
"""Points of the curves of one key: of all runs together, and of each run whatever their number."""


def is_run(folder: Path) -> bool:
    """Whether a folder is one of a run that has begun."""
    return (folder / "recipe.resolved.yaml").is_file() or (folder / "metrics.jsonl").is_file()


def names(folders: Sequence[Path]) -> list[str]:
    """A short name for each folder, told apart by as many parents as that takes."""
    parts = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        short = ["/".join(each[-depth:]) for each in parts]
        if len(set(short)) == len(set(parts)):
            return short
    return [str(folder) for folder in folders]


def collect(folders: Sequence[Path], *, live: bool = False) -> dict[str, Any]:
    """The data of a page: `runs`, `charts`, `differences`.

    Args:
        folders: of runs.
        live: leaves out what does not change while a run goes on, and what needs the end.

    Raises:
        UsageError: a folder is no run, or given twice.
    """
    for folder in folders:
        if not is_run(folder):
            raise UsageError(
                f"{folder} holds no run (no recipe.resolved.yaml, no metrics.jsonl); give the "
                f"folder that the recipe's `output` names"
            )
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError("a run is given twice; give each folder once")
    recipes = [read_recipe(folder) for folder in folders]
    number = max(len(folders), 1)
    budget = TRACE_BYTES // number
    points = min(POINTS, max(ALL_POINTS // number, FEWEST_POINTS))
    runs = [
        run(folder, name, recipe, budget, points, live=live)
        for folder, name, recipe in zip(folders, names(folders), recipes, strict=True)
    ]
    keys = dict.fromkeys(key for each in runs for key in each["columns"] if key[0] != "_")
    return {"runs": runs, "charts": charts(keys), "differences": differences(recipes)}


def run(
    folder: Path, name: str, recipe: dict[str, Any], budget: int, points: int, *, live: bool
) -> dict[str, Any]:
    """One run; see docs/report.md for what the files hold."""
    rows = with_total_flops(read_rows(folder / "metrics.jsonl"))
    drawn, bin_size = columns(rows, points)
    manifest = read_manifest(folder)
    primary = primary_of(rows)
    seen = read_run(folder, budget)
    task = recipe.get("task")
    first, last = _ends(rows, primary)
    finished = bool(manifest.get("finished"))
    made: dict[str, Any] = {
        "name": name,
        "title": manifest.get("title") or recipe.get("title") or "",
        "task": task.get("name") if isinstance(task, dict) else task,
        "rounds": rows[-1]["round"] if rows else 0,
        "planned": (recipe.get("train") or {}).get("rounds"),
        "state": "finished" if finished else "not finished",
        "columns": drawn,
        "bin": bin_size,
        "primary": primary,
        "first": first,
        "last": last,
        **seen,
    }
    for trace in made["traces"]:
        trace |= {"run": name, "task": made["task"]}
    if not live:
        made["manifest"] = flat_manifest(manifest)
        made["settings"] = flat(recipe)
        made["outcomes"] = table(found) if (found := read_outcomes(folder)) else []
        made["changed"] = changed(folder)
    return made


def with_total_flops(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with `_flops`, what was spent up to each of them, for the axis of the curves."""
    total, made = 0.0, []
    for row in rows:
        total += row.get("flops") or 0.0
        made.append(row | {"_flops": total})
    return made


def read_manifest(folder: Path) -> dict[str, Any]:
    """manifest.json, or nothing."""
    try:
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def flat_manifest(manifest: dict[str, Any]) -> dict[str, str]:
    """The manifest as lines of a table."""
    return {key.removeprefix("."): value for key, value in flat({"": manifest}).items()}


def primary_of(rows: Sequence[dict[str, Any]]) -> str | None:
    """The key of the evaluation's main metric: the one that has an interval."""
    for row in rows:
        for key in row:
            if key.startswith("eval/") and key.count("/") == 1 and f"{key}_low" in row:
                return key
    return None


def _ends(rows: Sequence[dict[str, Any]], key: str | None) -> list[list[float | None] | None]:
    """Value and interval of the first and the last evaluation."""
    found = [row for row in rows if key and row.get(key) is not None]
    if not found or key is None:
        return [None, None]
    return [
        [row[key], row.get(f"{key}_low"), row.get(f"{key}_high"), row["round"]]
        for row in (found[0], found[-1])
    ]
