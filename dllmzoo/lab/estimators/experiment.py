"""The estimator lab from settings to results."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from dllmzoo.errors import UsageError
from dllmzoo.lab.estimators.bench import Bench
from dllmzoo.lab.estimators.measure import measure
from dllmzoo.lab.estimators.options import TABLE, Options
from dllmzoo.lab.estimators.results import Point, Result, Selected, Skipped
from dllmzoo.lab.estimators.selection import select
from dllmzoo.lab.estimators.spec import Spec, component, split_specs, variants, with_steps
from dllmzoo.lab.estimators.trial import NO_DRAFTS, CannotMeasure, Estimator, refuse
from dllmzoo.lab.estimators.world import World
from dllmzoo.plugins import load_plugins
from dllmzoo.zoo import LIKELIHOODS, SELECTORS

Say = Callable[[str], None]


def run(options: Options, say: Say | None = None) -> Result:
    """Measure every estimator asked for.

    Args:
        options: what and how long.
        say: told a line for each estimator.

    Raises:
        UsageError: an unknown estimator, a model or a task that the lab cannot use.
    """
    tell = say or (lambda text: None)
    started = time.perf_counter()
    load_plugins(options.plugins, Path("."))
    world = world_of(options)
    bench = Bench(world, options)
    points, skipped = measured(bench, tell)
    selection: list[Selected] = []
    if "selection" in options.measures:
        selection, left_out = selected(bench, tell)
        skipped += left_out
    if "gradients" in options.measures and bench.gradient is None:
        skipped.append(Skipped("policy gradient", no_gradient(world)))
    truth, norm = world.old_truth, bench.gradient
    return Result(
        options=options,
        title=world.title,
        notes=world.notes,
        slots=world.slots,
        answers=len(world.prob_X),
        loglikelihood=float((world.prob_X * truth.loglikelihood_X).sum()),
        elbo=float((world.prob_X * truth.elbo_X).sum()),
        gradient_norm=None if norm is None else float(norm.norm()),
        exact_score=bench.exact_score,
        points=tuple(points),
        selection=tuple(selection),
        skipped=tuple(skipped),
        seconds=time.perf_counter() - started,
    )


def world_of(options: Options) -> World:
    """The table, or a trained model with its task."""
    if options.model == TABLE:
        from dllmzoo.lab.estimators.table_world import table_world

        return table_world(options)
    from dllmzoo.lab.estimators.network_world import network_world

    return network_world(options)


def no_gradient(world: World) -> str:
    """Why there is no exact policy gradient."""
    if world.reward_X is None or not world.exact:
        return "there are too many answers to enumerate; give fewer slots"
    return "every answer has the same reward, so the gradient is 0; take another example"


def measured(bench: Bench, say: Say) -> tuple[list[Point], list[Skipped]]:
    """Every estimator at every number of forwards, sorted by forwards."""
    options = bench.options
    texts = split_specs(options.estimators) or list(LIKELIHOODS.names())
    points, skipped = [], []
    if not {"values", "ratios", "gradients"} & set(options.measures):
        return [], []
    for text in texts:
        for estimator in estimators(text, bench):
            if isinstance(estimator, Skipped):
                skipped.append(estimator)
                continue
            started = time.perf_counter()
            try:
                refuse(estimator)
                points.append(measure(bench, estimator))
            except CannotMeasure as reason:
                skipped.append(Skipped(estimator.label, str(reason)))
                say(f"{estimator.label}: left out: {reason}")
            else:
                say(f"{estimator.label}: {time.perf_counter() - started:.1f} s")
    unique = list(dict.fromkeys(skipped))
    return sorted(points, key=lambda each: (each.forwards, each.label)), unique


def estimators(text: str, bench: Bench) -> list[Estimator | Skipped]:
    """The likelihood of a spec at every number of forwards, with every selector if it needs one."""
    options, T = bench.options, bench.world.slots
    head, _, of_selector = text.partition("@")
    spec = component("likelihood", head)
    name = head.partition(":")[0]
    if not spec.part.uses_steps:
        if of_selector:
            raise UsageError(f"estimator {text!r}: likelihood {name} does not score chosen steps")
        parts = variants(spec, options.views)
        return [Estimator(name, label(spec, part), part) for part in parts]
    if getattr(spec.part, "needs_drafts", False):
        return [Skipped(head, NO_DRAFTS)]
    named = [of_selector] if of_selector else [n for n in options.with_selectors if n in SELECTORS]
    if not named:
        return [Skipped(text, "it scores chosen steps, and none of the selectors is registered")]
    found: list[Estimator | Skipped] = []
    for each in named:
        selector = component("selector", each)
        for part in with_steps(selector, options.views, T):
            shown = f"{head}@{label(selector, part)}"
            found.append(Estimator(name, shown, spec.part, part))
    return found


def label(spec: Spec, part: Any) -> str:
    """A spec with the options that the lab has turned."""
    turned = [
        f"{field.name}={getattr(part, field.name)}"
        for field in fields(spec.part)
        if getattr(part, field.name) != getattr(spec.part, field.name)
    ]
    if not turned:
        return spec.text
    return spec.text + ("," if ":" in spec.text else ":") + ",".join(turned)


def selected(bench: Bench, say: Say) -> tuple[list[Selected], list[Skipped]]:
    """Every selector of steps against its bound."""
    options = bench.options
    if bench.gradient is None:
        return [], [Skipped("step selection", no_gradient(bench.world))]
    likelihood = component("likelihood", options.selector_of).part
    if not likelihood.uses_steps:
        raise UsageError(f"selector_of: likelihood {options.selector_of} scores no chosen steps")
    texts = split_specs(options.selectors)
    names = texts or [name for name in SELECTORS.names() if name != "all"]
    started = time.perf_counter()
    found = select(bench, likelihood, [(name, component("selector", name)) for name in names])
    say(f"step selection: {time.perf_counter() - started:.1f} s")
    return found
