"""Recipes over values and seeds: the runs of a grid, and their table."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllmzoo.lab.curves import curve, spent
from dllmzoo.lab.grid import grid
from dllmzoo.lab.runs import Arm, Outcome, Say, check_arms, run_arms
from dllmzoo.lab.statistics import between, mean_interval

if TYPE_CHECKING:
    from dllmzoo.recipe import Recipe

Table = tuple[tuple[str, ...], list[tuple[str, ...]], str]
"""Headers, rows and title."""


@dataclass(frozen=True)
class Sweep:
    """What to run.

    Args:
        recipes: files or names of packaged recipes.
        axes: key -> values as YAML text; every combination is run.
        seeds: run seeds 0 to seeds - 1 of each; None = the recipe's own.
        jobs: processes.
        output: folder of the sweep.
    """

    recipes: tuple[str, ...]
    axes: Mapping[str, tuple[str, ...]]
    seeds: int | None = None
    jobs: int = 1
    output: Path = Path("runs/sweep")

    def arms(self) -> list[Arm]:
        """The runs, in the order of the table."""
        return grid(self.recipes, dict(self.axes), self.seeds)


def run(options: Sweep, say: Say | None = None) -> dict[str, Any]:
    """Run the grid, or the rest of it; writes `table.json` and `table.csv` into the folder.

    Raises:
        RecipeError: all problems of all runs, before anything is run.
        UsageError: the options contradict each other, or the folder holds something else.
        RunError: a run in the folder is of another recipe.
        Interrupted: stopped by a signal; the same call goes on.
    """
    from dllmzoo.training.files import write_bytes, write_json

    arms = options.arms()
    outcomes = run_arms(arms, options.output, options.jobs, say=say)
    recipes = check_arms(arms, options.output)
    result = {
        "format": 1,
        "folder": str(options.output),
        "runs": [_entry(outcome, recipes[outcome.arm.name]) for outcome in outcomes],
    }
    write_json(options.output / "table.json", result)
    write_bytes(options.output / "table.csv", as_csv(result).encode())
    return result


def forecast(arms: Sequence[Arm], folder: Path) -> list[dict[str, Any]]:
    """What each run would cost; trains nothing and writes nothing.

    Raises:
        RecipeError: all problems of all runs.
    """
    from dllmzoo.training.plan import plan

    rows = []
    for name, recipe in check_arms(arms, folder).items():
        found = plan(recipe)
        rows.append({
            "arm": name, "rounds": found.rounds, "flops_per_round": found.flops,
            "flops": found.flops * found.rounds,
            "minutes": found.seconds * found.rounds / 60,
        })  # fmt: skip
    return rows


def _entry(outcome: Outcome, recipe: Recipe) -> dict[str, Any]:
    """One run: its settings, first and last value of the main metric, and its cost."""
    arm, rows, primary = outcome.arm, outcome.rows, recipe.task.primary
    metric = f"eval/{primary}"
    samples = recipe.train.prompts * (recipe.train.group_size if recipe.stage == "rl" else 1)
    evaluated = [row for row in rows if row.get(metric) is not None]
    first = evaluated[0] if evaluated else {}
    last = evaluated[-1] if evaluated else {}
    return {
        "arm": arm.name,
        "recipe": arm.recipe,
        "overrides": list(arm.overrides),
        "seed": recipe.seed,
        "status": outcome.status,
        "message": outcome.message,
        "metric": primary,
        "first": first.get(metric),
        "last": last.get(metric),
        "low": last.get(f"{metric}_low"),
        "high": last.get(f"{metric}_high"),
        "rounds": rows[-1]["round"] if rows else 0,
        "minutes": rows[-1].get("time/elapsed", 0.0) / 60 if rows else 0.0,
        **spent(rows, samples),
        "evaluation": {name: value for name, value in last.items() if name.startswith("eval/")},
        "curve": [asdict(point) for point in curve(rows, metric, samples)],
    }


def tables(result: dict[str, Any]) -> list[Table]:
    """Every run, then the mean over the seeds of each setting that has several."""
    found: list[Table] = [(
        ("run", "ended", "metric", "first", "last", "95 %", "rounds", "minutes", "FLOPs"),
        [_line(run) for run in result["runs"]], "",
    )]  # fmt: skip
    settings = by_setting(result["runs"])
    if any(len(runs) > 1 for runs in settings.values()):
        rows = []
        for name, runs in settings.items():
            scores = [run["last"] for run in runs if run["last"] is not None]
            mean = mean_interval(scores)
            cells = (shown(mean.value), between(mean), str(mean.number)) if scores else ("",) * 3
            rows.append((name, *cells, shown(_mean([run["first"] for run in runs]))))
        found.append((("setting", "mean", "95 % (t)", "seeds", "first"), rows, "over the seeds"))
    return found


def by_setting(runs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The runs that differ in their seed only, under their common name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        words = [word for word in run["arm"].split(",") if not word.startswith("seed=")]
        found.setdefault(",".join(words), []).append(run)
    return found


def as_csv(result: dict[str, Any]) -> str:
    """One line a run: its numbers, a column for each changed key, and its last evaluation."""
    runs = result["runs"]
    numbers = (
        "arm", "recipe", "seed", "status", "metric", "first", "last", "low", "high", "rounds",
        "minutes", "flops", "samples", "updates", "seconds", "message",
    )  # fmt: skip
    changes = [dict(_parts(word) for word in run["overrides"]) for run in runs]
    keys = [key for key in _union(changes) if key != "seed"]
    evaluated = _union([run["evaluation"] for run in runs])
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*numbers, *keys, *evaluated])
    for run, change in zip(runs, changes, strict=True):
        row = [run[name] for name in numbers] + [change.get(key) for key in keys]
        writer.writerow(row + [run["evaluation"].get(name) for name in evaluated])
    return file.getvalue()


def _line(run: dict[str, Any]) -> tuple[str, ...]:
    interval = "" if run["low"] is None else f"{run['low']:.3f} to {run['high']:.3f}"
    return (
        run["arm"], run["status"], run["metric"], shown(run["first"]), shown(run["last"]), interval,
        str(run["rounds"]), f"{run['minutes']:.1f}", f"{run['flops']:.3g}",
    )  # fmt: skip


def shown(value: float | None) -> str:
    """A score with three decimals, or nothing."""
    return "" if value is None or math.isnan(value) else f"{value:.3f}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _parts(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    return key, value


def _union(mappings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every key once, in the order of appearance."""
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))
