"""Parts that do not go together, and counts that do not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from dllmzoo.checks._found import Found
from dllmzoo.errors import DllmzooError
from dllmzoo.recipe.plain import name_of
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.registry import Registry
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SELECTORS


def check_parts(recipe: Recipe, found: Found) -> None:
    """What one part needs and another does not give."""
    _steps(recipe, found)
    _units(recipe, found)
    _reference(recipe, found)


def _steps(recipe: Recipe, found: Found) -> None:
    sampler, selector, likelihood = recipe.sampler, recipe.selector, recipe.likelihood
    advantage = recipe.advantage
    uses_steps = getattr(likelihood, "uses_steps", False)
    scored, judged = name_of(likelihood), name_of(advantage)
    with_steps = _names(LIKELIHOODS, lambda cls: getattr(cls, "uses_steps", False))
    if selector is not None and not uses_steps:
        found.add(
            "selector",
            f"likelihood {scored} uses no denoising steps, so nothing reads the selector",
            f"remove the selector, or use a likelihood that does: {with_steps}",
        )
    if selector is None and uses_steps:
        found.add(
            "likelihood",
            f"likelihood {scored} scores chosen denoising steps, and no selector chooses them",
            f"add selector: {{name: ..., steps: ...}}; there are: {', '.join(SELECTORS.names())}",
        )
    if uses_steps and not getattr(sampler, "records_steps", True):
        found.add(
            "sampler",
            f"sampler {name_of(sampler)} records no denoising steps, which likelihood {scored} "
            f"scores",
            "use a sampler that writes answers step by step, or a likelihood without steps",
        )
    if uses_steps:
        without = _names(ADVANTAGES, lambda cls: not getattr(cls, "needs_previews", False))
    else:
        without = _names(ADVANTAGES, lambda cls: not _of_steps(cls))
    if not uses_steps and getattr(advantage, "needs_previews", False):
        found.add(
            "advantage",
            f"advantage {judged} compares with one-shot guesses of chosen denoising steps, and "
            f"likelihood {scored} has no steps",
            f"use likelihood {with_steps} with a selector, or advantage {without}",
        )
    elif getattr(advantage, "per_step", False):
        unit = getattr(likelihood, "unit", "sequence")
        if not uses_steps or unit not in ("step", "slot"):
            found.add(
                "advantage",
                f"advantage {judged} judges single denoising steps, and the units of likelihood "
                f"{scored} are {unit}s",
                f"use likelihood {with_steps} with unit step or slot, or advantage "
                f"{_names(ADVANTAGES, lambda cls: not _of_steps(cls))}",
            )


def _of_steps(cls: Any) -> bool:
    return getattr(cls, "needs_previews", False) or getattr(cls, "per_step", False)


def _units(recipe: Recipe, found: Found) -> None:
    loss, likelihood = recipe.loss, recipe.likelihood
    unit = getattr(likelihood, "unit", "sequence")
    units = getattr(loss, "units", None)
    if units is not None and unit not in units:
        fitting = _names(LOSSES, lambda cls: unit in getattr(cls, "units", (unit,)))
        found.add(
            "loss",
            f"loss {name_of(loss)} is made for units {' and '.join(sorted(units))}, and likelihood "
            f"{name_of(likelihood)} gives one log-prob per {unit}",
            f"use a likelihood of those units, or a loss for this one: {fitting}",
        )
    if getattr(loss, "needs_exact_kl", False) and not getattr(likelihood, "linear", True):
        found.add(
            "loss.kl",
            f"an exact KL needs log-probs that are plain sums over tokens, and those of likelihood "
            f"{name_of(likelihood)} are weighted",
            "use kl: k3, or a likelihood that adds up tokens: "
            + _names(LIKELIHOODS, lambda cls: getattr(cls, "linear", True)),
        )


def _reference(recipe: Recipe, found: Found) -> None:
    loss, model = recipe.loss, recipe.model
    needed = getattr(loss, "needs_reference", False) or getattr(loss, "needs_exact_kl", False)
    if needed and model.reference == "none":
        found.add(
            "model.reference",
            f"loss {name_of(loss)} measures a KL to a reference policy, and reference is none",
            "use reference: auto, or loss.kl_coef: 0",
        )
    if model.reference == "adapter" and model.lora is None:
        found.add(
            "model.reference",
            "reference: adapter is the network with its adapters off, and there is no lora",
            "use reference: copy, or train adapters: lora: {rank: 64}",
        )


def check_counts(recipe: Recipe, found: Found) -> None:
    """Steps, groups and minibatches that do not fit each other."""
    train, selector = recipe.train, recipe.selector
    P, G = train.prompts, train.group_size
    if G == 1 and getattr(recipe.advantage, "needs_group", False):
        same = f"prompts: {P // 2}, group_size: 2 (as many sequences), or " if P > 1 else ""
        found.add(
            "train.group_size",
            f"advantage {name_of(recipe.advantage)} compares the samples of a prompt, and a group "
            f"of 1 has nothing to compare: prompts {P} x group_size 1 = {P} sequences",
            f"nearest: {same}prompts: {P}, group_size: 2",
        )
    T, K = getattr(recipe.sampler, "num_steps", None), getattr(selector, "steps", None)
    if isinstance(T, int) and isinstance(K, int) and K > T:
        found.add(
            "selector.steps",
            f"{K} of {T} denoising steps cannot be chosen: the sampler runs {T}",
            f"use selector.steps: {T} or less, or sampler.steps: {K}",
        )
    M = train.minibatches
    if M > P:
        found.add(
            "train.minibatches",
            f"{M} minibatches of whole groups need {M} prompts, and a round has {P}",
            f"use minibatches: {P} or less, or prompts: {M}",
        )
    elif math.ceil(P / math.ceil(P / M)) != M:
        fitting = [m for m in range(1, P + 1) if P % m == 0]
        near = sorted(sorted(fitting, key=lambda m: abs(m - M))[:2])
        found.add(
            "train.minibatches",
            f"{P} prompts cannot be cut into {M} minibatches of about equal size",
            f"nearest: minibatches: {' or '.join(map(str, near))}; or prompts: {-(-P // M) * M}",
        )


def check_evaluation(recipe: Recipe, found: Found) -> None:
    """Step counts of the evaluation that the sampler cannot run."""
    sampler, evaluation = recipe.sampler, recipe.evaluate
    wanted = [("evaluate.steps", evaluation.steps)]
    wanted += [("evaluate.also_steps", steps) for steps in evaluation.also_steps]
    for path, steps in wanted:
        if steps is None:
            continue
        if not is_dataclass(sampler) or "steps" not in {each.name for each in fields(sampler)}:
            found.add(path, f"sampler {name_of(sampler)} takes no steps", "remove the key")
            continue
        try:
            replace(sampler, steps=steps)  # type: ignore[type-var]
        except (DllmzooError, ValueError) as error:
            said = getattr(error, "errors", lambda: [])()
            reason = said[0].get("ctx", {}).get("error", said[0]["msg"]) if said else error
            found.add(path, f"the sampler cannot take {steps} steps: {reason}")


def _names(registry: Registry[Any], wanted: Callable[[Any], bool]) -> str:
    """Names of the components of a kind that could be used instead."""
    fitting = []
    for name in registry.names():
        try:
            if wanted(registry.get(name)):
                fitting.append(name)
        except DllmzooError:
            continue
    return ", ".join(fitting) or "one of your own"
