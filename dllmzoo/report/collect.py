"""A run folder as plain data: all that its part of a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dllmzoo.errors import UsageError
from dllmzoo.report.answers import changed, read_outcomes, table
from dllmzoo.report.folders import is_run, primary_of, read_manifest
from dllmzoo.report.glance import stopped
from dllmzoo.report.keys import charts
from dllmzoo.report.rows import POINTS, columns, read_rows
from dllmzoo.report.settings import differences, flat, read_recipe
from dllmzoo.report.traces import read_run

TRACE_BYTES = 1_200_000
"""Of all runs of a page together."""
ALL_POINTS, FEWEST_POINTS = 2000, 60
"""Points of the curves of one key: of all runs together, and of each run whatever their number."""


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
    made: dict[str, Any] = {
        "name": name,
        "title": manifest.get("title") or recipe.get("title") or "",
        "task": task.get("name") if isinstance(task, dict) else task,
        "rounds": rows[-1]["round"] if rows else 0,
        "planned": (recipe.get("train") or {}).get("rounds"),
        "state": state(manifest),
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


def state(manifest: dict[str, Any]) -> str:
    """Whether a run has ended, and what stopped it if something did before its time."""
    if manifest.get("finished"):
        return "finished"
    why = stopped(manifest)
    return f"stopped by {why}" if why else "not finished"


def with_total_flops(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with `_flops`, what was spent up to each of them, for the axis of the curves."""
    total, made = 0.0, []
    for row in rows:
        total += row.get("flops") or 0.0
        made.append(row | {"_flops": total})
    return made


def flat_manifest(manifest: dict[str, Any]) -> dict[str, str]:
    """The manifest as lines of a table."""
    return {key.removeprefix("."): value for key, value in flat({"": manifest}).items()}


def _ends(rows: Sequence[dict[str, Any]], key: str | None) -> list[list[float | None] | None]:
    """Value and interval of the first and the last evaluation."""
    found = [row for row in rows if key and row.get(key) is not None]
    if not found or key is None:
        return [None, None]
    return [
        [row[key], row.get(f"{key}_low"), row.get(f"{key}_high"), row["round"]]
        for row in (found[0], found[-1])
    ]
