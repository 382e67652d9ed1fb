"""Stability lab: which loss survives noisy importance ratios, and for how long.

A policy's likelihood is estimated from random masks, so the ratio of new to old likelihood, an
exponential of two estimates, is noisy with a heavy tail. A surrogate whose weight is that ratio
takes large steps on noise; they move the policy, which makes the ratios noisier still. The lab
runs losses that differ only in how they treat the ratio (`arms`) under several sources of noise
(`conditions`) and reports who collapsed, by which sign, after how many updates.
"""

from __future__ import annotations

import time
from typing import Any

from dllmzoo.lab.runs import Say, run_arms
from dllmzoo.lab.stability.arms import RIVALS
from dllmzoo.lab.stability.cells import over_seeds, run_entry
from dllmzoo.lab.stability.conditions import CONDITIONS, RECIPE
from dllmzoo.lab.stability.drawing import plot
from dllmzoo.lab.stability.options import Options
from dllmzoo.lab.stability.report import named_tables, tables, verdicts
from dllmzoo.lab.stability.toys import play_all
from dllmzoo.lab.stability.verdict import judge

__all__ = ["CONDITIONS", "RIVALS", "Options", "named_tables", "plot", "run", "tables", "verdicts"]

PRIMARY = "solved_rate"
"""Main metric of the recipe's task."""


def run(options: Options, say: Say | None = None) -> dict[str, Any]:
    """Run the grid, or the rest of it; writes `stability.json` into the folder.

    Returns:
        Plain values: `runs` (signs of collapse, figures and curves of each), `cells` (over seeds),
        `verdicts` (sentences), `failed` (name -> error; such runs count nowhere) and, in the full
        grid, `toys`.

    Raises:
        UsageError: a name is unknown, or the folder holds something else.
        RecipeError: all problems of all runs, before anything is run.
        RunError: the folder holds a run of another recipe.
        Interrupted: stopped by a signal; the same call goes on.
    """
    from dllmzoo.training.files import write_json

    started = time.monotonic()
    wanted = options.cells()
    outcomes = run_arms(options.runs(), options.output, options.jobs, say=_quieter(say))
    runs = [
        run_entry(outcome, *cell, PRIMARY) for outcome, cell in zip(outcomes, wanted, strict=True)
    ]
    cells = over_seeds(runs)
    run_minutes = sum(run["figures"]["seconds"] or 0.0 for run in runs) / 60
    result = {
        "format": 1,
        "folder": str(options.output),
        "grid": options.grid,
        "changes": list(options.changes),
        "minutes": max((time.monotonic() - started) / 60, run_minutes / options.jobs),
        "run_minutes": run_minutes,
        "recipes": [RECIPE],
        "seeds": sorted({seed for _, _, seed in wanted}),
        "failed": {run["name"]: run["message"] for run in runs if run["status"] == "failed"},
        "verdicts": judge(runs, cells),
        "cells": cells,
        "toys": play_all() if options.whole else None,
        "runs": runs,
    }
    write_json(options.output / "stability.json", result)
    return result


def _quieter(say: Say | None) -> Say:
    """Without the engine's note that an arm has another loss than the recipe: it is meant so."""

    def tell(text: str) -> None:
        if say is not None and not text.startswith("note: loss: name changed"):
            say(text)

    return tell
