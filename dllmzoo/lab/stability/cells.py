"""Runs of one arm in one condition, over seeds: how many collapsed, and where they stood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dllmzoo.lab.runs import Outcome
from dllmzoo.lab.stability.binomial import exact_interval
from dllmzoo.lab.stability.collapse import signs
from dllmzoo.lab.stability.measure import curves, figures, quantile
from dllmzoo.lab.statistics import mean_interval

OVER_SEEDS = ("solved_first", "solved_last", "solved_late", "reward_first", "reward_last")
"""Figures whose mean over seeds gets a t interval; of the others the median is given."""

LARGEST = ("grad_max", "ratio_max", "drift_max", "clipped_high")
"""Figures of which the largest over seeds is given."""

SMALLEST = ("solved_low", "ess_low", "clipped_low")
"""Figures of which the smallest is given."""


def run_entry(
    outcome: Outcome, condition: str, arm: str, seed: int, primary: str
) -> dict[str, Any]:
    """One run as plain values; `collapsed` is the update of its first sign."""
    found = signs(outcome.rows, primary, stopped=outcome.status == "stopped")
    return {
        "name": outcome.arm.name,
        "condition": condition,
        "arm": arm,
        "seed": seed,
        "status": outcome.status,
        "message": outcome.message,
        "signs": found,
        "collapsed": min(found.values(), default=None),
        "figures": figures(outcome.rows, primary),
        "curves": curves(outcome.rows, primary),
    }


def over_seeds(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each condition and arm, in the order of the runs; failed runs count nowhere."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["condition"], run["arm"]), []).append(run)
    return [_cell(condition, arm, group) for (condition, arm), group in groups.items()]


def _cell(condition: str, arm: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sound = [run for run in runs if run["status"] != "failed"]
    fallen = [run for run in sound if run["signs"]]
    low, high = exact_interval(len(fallen), len(sound))
    return {
        "condition": condition,
        "arm": arm,
        "seeds": [run["seed"] for run in sound],
        "failed": len(runs) - len(sound),
        "collapsed": len(fallen),
        "share_low": low,
        "share_high": high,
        "signs": dict(Counter(sign for run in fallen for sign in run["signs"])),
        "updates": quantile([run["collapsed"] for run in fallen], 0.5),
        "figures": _figures([run["figures"] for run in sound]),
    }


def _figures(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each figure over the seeds that have it."""
    found: dict[str, Any] = {}
    for name in runs[0] if runs else ():
        values = [run[name] for run in runs if run[name] is not None]
        if not values:
            found[name] = None
        elif name in OVER_SEEDS:
            mean = mean_interval(values)
            found[name] = mean.value
            found[f"{name}_low"], found[f"{name}_high"] = mean.low, mean.high
        elif name in LARGEST:
            found[name] = max(values)
        elif name in SMALLEST:
            found[name] = min(values)
        else:
            found[name] = quantile(values, 0.5)
    return found
