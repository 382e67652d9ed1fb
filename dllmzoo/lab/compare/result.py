"""Numbers of a comparison, as plain values: every run, every method, every pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dllmzoo.errors import RunError
from dllmzoo.lab.compare.contest import Contestant, decoder, main_steps
from dllmzoo.lab.compare.options import Options
from dllmzoo.lab.curves import COSTS, curve, spent
from dllmzoo.lab.runs import Outcome
from dllmzoo.lab.statistics import first_reach, mean_interval, pairs
from dllmzoo.recipe.plain import name_of

SHARE = 0.8
"""Of the best method's final score, whose cost is reported."""


def further_steps(found: Sequence[Contestant], steps: Sequence[int] | None) -> tuple[int, ...]:
    """Numbers of denoising steps besides the main one, smallest first."""
    main = main_steps(found[0].recipe)
    longest = min(decoder(each.recipe).answer_length for each in found)
    wanted = (max(main // 2, 1), min(2 * main, longest)) if steps is None else steps
    return tuple(sorted(set(wanted) - {main}))


def compared(
    found: Sequence[Contestant],
    rates: Mapping[str, float],
    outcomes: Sequence[Outcome],
    options: Options,
) -> dict[str, Any]:
    """Everything that is reported, as plain values; methods with the best one first.

    Raises:
        RunError: no method got through all of its runs.
    """
    primary = found[0].recipe.task.primary
    by_name = {outcome.arm.name: outcome for outcome in outcomes}
    also = further_steps(found, options.steps)
    methods, failed = [], {}
    for each in found:
        mine = [by_name[f"{each.label},seed={seed}"] for seed in range(options.seeds)]
        broken = [o for o in mine if o.status == "failed" or not o.rows]
        if broken:
            failed[each.label] = f"{broken[0].arm.name}: {broken[0].message}"
            continue
        runs = [
            _run(outcome, seed, f"eval/{primary}", each.samples, also)
            for seed, outcome in enumerate(mine)
        ]
        methods.append(_method(each, rates[each.label], runs, options.budget_flops))
    if not methods:
        raise RunError("every method failed:\n" + "\n".join(failed.values()))
    methods.sort(key=lambda method: -method["final"]["value"])
    target = SHARE * methods[0]["final"]["value"]
    for method in methods:
        method["reach"] = [_reach(run["curve"], target) for run in method["runs"]]
    finals = {m["label"]: {run["seed"]: run["final"] for run in m["runs"]} for m in methods}
    minutes = sum(run["minutes"] for method in methods for run in method["runs"])
    return {
        "format": 1,
        "metric": primary,
        "examples": found[0].recipe.evaluate.examples,
        "budget_flops": options.budget_flops,
        "recipes": [each.source for each in found],
        "seeds": list(range(options.seeds)),
        "steps": main_steps(found[0].recipe),
        "also_steps": list(also),
        "target": target,
        "minutes": minutes / min(options.jobs, len(outcomes)),
        "methods": methods,
        "failed": failed,
        "pairs": [asdict(pair) for pair in pairs(finals)],
    }


def _method(
    each: Contestant, rate: float, runs: list[dict[str, Any]], budget: float
) -> dict[str, Any]:
    """One method: its settings, its runs, and their means."""
    recipe = each.recipe
    return {
        "label": each.label,
        "recipe": each.source,
        "method": recipe.method,
        "overrides": list(each.overrides),
        "lr": rate,
        "train_steps": recipe.sampler.num_steps,
        "decoder": name_of(decoder(recipe)),
        "rounds": each.rounds(budget),
        "flops_of_a_round": {
            "planned": each.planned, "measured": each.measured, "corrected": each.corrected,
        },
        "runs": runs,
        "start": asdict(mean_interval([run["start"] for run in runs])),
        "final": asdict(mean_interval([run["final"] for run in runs])),
        "gain": asdict(mean_interval([run["final"] - run["start"] for run in runs])),
        "at_steps": {
            steps: asdict(mean_interval(values))
            for steps in runs[0]["at_steps"]
            if (values := [run["at_steps"][steps] for run in runs if run["at_steps"][steps]
                           is not None])
        },
        "start_at_steps": {
            steps: asdict(mean_interval([run["start_at_steps"][steps] for run in runs]))
            for steps in runs[0]["start_at_steps"]
        },
        **{cost: math.fsum(run[cost] for run in runs) / len(runs) for cost in COSTS},
    }  # fmt: skip


def _run(
    outcome: Outcome, seed: int, metric: str, samples: int, also: Sequence[int]
) -> dict[str, Any]:
    """One run: its curve, its scores at every number of steps, what it spent."""
    rows = outcome.rows
    points = curve(rows, metric, samples)
    name = metric.removeprefix("eval/")
    ends = outcome.status == "finished"
    return {
        "seed": seed,
        "status": outcome.status,
        "message": outcome.message,
        "start": points[0].value,
        "final": points[-1].value,
        "at_steps": {
            str(steps): rows[-1].get(f"eval/steps{steps}/{name}") if ends else None
            for steps in also
        },
        "start_at_steps": {str(steps): rows[0][f"eval/steps{steps}/{name}"] for steps in also},
        "minutes": rows[-1].get("time/elapsed", 0.0) / 60,
        **spent(rows, samples),
        "curve": [asdict(point) for point in points],
    }


def _reach(points: Sequence[Mapping[str, Any]], target: float) -> dict[str, float] | None:
    """What was spent when the score was first at the target; None if it never was."""
    index = first_reach([point["value"] for point in points], target)
    return None if index is None else {cost: points[index][cost] for cost in COSTS}


def mean_curves(result: Mapping[str, Any]) -> dict[str, Any]:
    """Mean and interval over seeds at each evaluation, against each cost.

    A run that a health check stopped keeps its last score; its costs are those of the others.
    """
    methods = {}
    for method in result["methods"]:
        runs = [run["curve"] for run in method["runs"]]
        rounds = sorted({point["round"] for points in runs for point in points})
        found = []
        for round in rounds:
            here = [point for points in runs for point in points if point["round"] == round]
            values = [[p["value"] for p in points if p["round"] <= round][-1] for points in runs]
            mean = mean_interval(values)
            costs = {cost: math.fsum(p[cost] for p in here) / len(here) for cost in COSTS}
            found.append({
                "round": round, **costs, "mean": mean.value, "low": mean.low, "high": mean.high,
                "values": values,
            })  # fmt: skip
        methods[method["label"]] = found
    return {"format": 1, "metric": result["metric"], "costs": list(COSTS), "methods": methods}
