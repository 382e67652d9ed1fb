"""Methods at equal compute: every recipe spends the same FLOPs, on the same seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dllmzoo.errors import UsageError
from dllmzoo.lab.compare import tuning
from dllmzoo.lab.compare.contest import Contestant, contestants, find_recipes, probed
from dllmzoo.lab.compare.options import Options, refuse
from dllmzoo.lab.compare.result import compared, further_steps, mean_curves
from dllmzoo.lab.runs import Arm, Say, check_arms, run_arms

EVALUATIONS = 10
"""Of a run, besides the one at its start."""


def run(options: Options, say: Say | None = None) -> dict[str, Any]:
    """Probe, tune if asked, and run every method on every seed, or the rest of it.

    Writes `compare.json` (all numbers), `curves.json` and, with tuning, `tune/rates.json`. A
    method with a failed run is reported as failed and left out.

    Raises:
        RecipeError: all problems of all recipes, before anything is run.
        UsageError: options contradict each other, recipes cannot be compared, or the folder
            holds something else.
        RunError: every method failed, or the folder holds a run of other settings.
        Interrupted: stopped by a signal; the same call goes on.
    """
    from dllmzoo.training.files import write_json

    tell: Say = say or (lambda text: None)
    refuse(options)
    folder = options.output
    found = contestants(find_recipes(options.recipes, tell), options.overrides, folder)
    rates = own_rates(found, options)
    check_arms(_forecast(found, rates, options), folder / "compare")
    tell(f"{len(found)} methods; two rounds of each are counted")
    found = probed(found, folder / "probe", options.jobs, tell)
    _refuse_small(found, options.budget_flops, "--budget-flops")
    if options.tune:
        _refuse_small(
            found, options.tune_budget_flops or options.budget_flops, "--tune-budget-flops"
        )
    table = None
    if options.tune:
        budget = options.tune_budget_flops or options.budget_flops
        table = tuning.tuned(found, options.tune, budget, folder / "tune", options.jobs, tell)
        rates = table["rates"]
    arms = _arms(found, rates, options)
    outcomes = run_arms(arms, folder / "compare", options.jobs, say=tell)
    result = compared(found, rates, outcomes, options) | {"tuning": table}
    write_json(folder / "compare.json", result)
    write_json(folder / "curves.json", mean_curves(result))
    return result


def _refuse_small(found: Sequence[Contestant], budget: float, option: str) -> None:
    """Raise if a method cannot keep to a budget: one round of it costs much more."""
    dear = {each.label: each.flops for each in found if each.flops > 1.5 * budget}
    if dear:
        name, most = max(dear.items(), key=lambda pair: pair[1])
        raise UsageError(
            f"{option} {budget:g} is less than a round of {', '.join(dear)}: {name} needs "
            f"{most:.2g} FLOPs; use {2 * most:.1g} or more"
        )


def _arms(found: Sequence[Contestant], rates: Mapping[str, float], options: Options) -> list[Arm]:
    """Every method on every seed; a collapsed policy goes on to spend its compute."""
    also = list(further_steps(found, options.steps))
    return [
        each.arm(
            f"{each.label},seed={seed}", f"optimizer.lr={rates[each.label]!r}", f"seed={seed}",
            *tuning.length(each.rounds(options.budget_flops), EVALUATIONS),
            f"evaluate.also_steps={also}", "evaluate.floor=null",
        )
        for seed in range(options.seeds)
        for each in found
    ]  # fmt: skip


def forecast(options: Options, say: Say | None = None) -> list[Arm]:
    """The runs of the comparison proper, by forecast; probing and tuning may change them.

    Args:
        options: of the comparison.
        say: told which recipes a pattern leaves out.

    Raises:
        RecipeError: all problems of all recipes.
        UsageError: options contradict each other, or recipes cannot be compared.
    """
    refuse(options)
    found = contestants(find_recipes(options.recipes, say), options.overrides, options.output)
    return _forecast(found, own_rates(found, options), options)


def _forecast(
    found: Sequence[Contestant], rates: Mapping[str, float], options: Options
) -> list[Arm]:
    """The arms, with rounds by the forecast of FLOPs."""
    from dllmzoo.training.plan import plan

    forecasts = [(each, plan(each.recipe).flops) for each in found]
    known = [replace(each, planned=flops, measured=flops) for each, flops in forecasts]
    return _arms(known, rates, options)


def own_rates(found: Sequence[Contestant], options: Options) -> dict[str, float]:
    """The learning rates of the recipes, or of the file that was given."""
    if options.rates:
        return tuning.read_rates(options.rates, found)
    return {each.label: each.recipe.optimizer.lr for each in found}
