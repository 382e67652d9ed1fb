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
    if found.sound("likelihood", "selector"):
        _selector(recipe, found)
    if found.sound("likelihood", "sampler"):
        _recording(recipe, found)
    if found.sound("likelihood", "sampler.answer_length"):
        _length(recipe, found)
    if found.sound("sampler", "selector", "likelihood", "advantage", "loss"):
        _sharing(recipe, found)
        _drafts(recipe, found)
    if found.sound("likelihood.unit", "advantage"):
        _credit(recipe, found)
    if found.sound("likelihood.unit", "loss"):
        _units(recipe, found)
    if found.sound("likelihood", "loss.kl", "loss.kl_coef"):
        _exact_kl(recipe, found)
    if found.sound("loss.kl", "loss.kl_coef", "model.reference", "model.lora"):
        _reference(recipe, found)


def _selector(recipe: Recipe, found: Found) -> None:
    uses_steps, scored = _uses_steps(recipe), name_of(recipe.likelihood)
    if recipe.selector is not None and not uses_steps:
        found.add(
            "selector",
            f"likelihood {scored} uses no denoising steps, so nothing reads the selector",
            f"remove the selector, or use a likelihood that does: {_with_steps()}",
        )
    if recipe.selector is None and uses_steps:
        found.add(
            "likelihood",
            f"likelihood {scored} scores chosen denoising steps, and no selector chooses them",
            f"add selector: {{name: ..., steps: ...}}; there are: {', '.join(SELECTORS.names())}",
        )


def _recording(recipe: Recipe, found: Found) -> None:
    reads = _uses_steps(recipe) or getattr(recipe.likelihood, "reads_reveal", False)
    if reads and not getattr(recipe.sampler, "records_steps", True):
        found.add(
            "sampler",
            f"sampler {name_of(recipe.sampler)} records no denoising steps, which likelihood "
            f"{name_of(recipe.likelihood)} scores",
            "use a sampler that writes answers step by step, or a likelihood without steps",
        )


def _drafts(recipe: Recipe, found: Found) -> None:
    """Drafts of every step: who stores them, who reads them."""
    sampler, selector, advantage = recipe.sampler, recipe.selector, recipe.advantage
    stored = getattr(sampler, "records_drafts", False)
    ranked = getattr(selector, "needs_advantage", False)
    if getattr(recipe.likelihood, "needs_drafts", False) and not stored:
        found.add(
            "likelihood",
            f"likelihood {name_of(recipe.likelihood)} scores the drafts of the chosen steps, and "
            f"sampler {name_of(sampler)} stores none",
            "use sampler: {record_drafts: true}, or a sampler that masks tokens again",
        )
    if ranked and getattr(advantage, "needs_previews", False) and not stored:
        found.add(
            "selector",
            f"selector {name_of(selector)} ranks steps by the rewards of their drafts, and sampler "
            f"{name_of(sampler)} stores none",
            "use sampler: {record_drafts: true}, or a selector that does not look at advantages",
        )
    keeps = getattr(selector, "num_selected", lambda num_steps: -1)
    if getattr(advantage, "needs_every_step", False) and not ranked and selector is not None:
        T = getattr(sampler, "num_steps", 0)
        if keeps(T) != T or hasattr(selector, "steps"):
            found.add(
                "selector",
                f"advantage {name_of(advantage)} compares every step with the one before, and "
                f"selector {name_of(selector)} hands it some of them",
                "use selector: top_advantage, or selector: all",
            )


def _length(recipe: Recipe, found: Found) -> None:
    """An enumeration of masks that an answer may be too long for."""
    limit, N = (
        getattr(recipe.likelihood, "max_tokens", None),
        getattr(recipe.sampler, "answer_length", 0),
    )
    if limit is not None and limit < N and getattr(recipe.sampler, "given", None) != "blanks":
        found.add(
            "likelihood",
            f"likelihood {name_of(recipe.likelihood)} takes answers of at most {limit} tokens, and "
            f"sampler {name_of(recipe.sampler)} writes up to {N}",
            f"use sampler.answer_length: {limit} or less, or another likelihood such as elbo",
        )


def _sharing(recipe: Recipe, found: Found) -> None:
    """Trajectories that share steps: the tree, and who reads it."""
    leaves = getattr(recipe.sampler, "group_size", None)
    for key in ("selector", "advantage", "loss"):
        part = getattr(recipe, key)
        if getattr(part, "needs_branches", False) and leaves is None:
            found.add(
                key,
                f"{key} {name_of(part)} reads which samples share denoising steps, and sampler "
                f"{name_of(recipe.sampler)} lets none share any",
                "use sampler: {name: tree, ...}",
            )
    marked = getattr(recipe.likelihood, "marks_parents", False)
    if getattr(recipe.loss, "needs_branches", False) and leaves is not None and not marked:
        fitting = _names(LIKELIHOODS, lambda cls: getattr(cls, "marks_parents", False))
        found.add(
            "likelihood",
            f"loss {name_of(recipe.loss)} compares answers that start from one state, and "
            f"likelihood {name_of(recipe.likelihood)} does not say which do",
            f"use likelihood {fitting}",
        )
    if leaves is not None and recipe.train.group_size != leaves:
        found.add(
            "train.group_size",
            f"sampler {name_of(recipe.sampler)} grows {leaves} answers from each prompt, and "
            f"group_size is {recipe.train.group_size}",
            f"use train.group_size: {leaves}, or other branches",
        )


def _credit(recipe: Recipe, found: Found) -> None:
    likelihood, advantage, uses_steps = recipe.likelihood, recipe.advantage, _uses_steps(recipe)
    judged, scored = name_of(advantage), name_of(likelihood)
    hint = f"use likelihood {_with_steps()} with a selector, or advantage {_without_steps()}"
    if getattr(advantage, "needs_previews", False) and not uses_steps:
        found.add(
            "advantage",
            f"advantage {judged} compares with one-shot guesses of chosen denoising steps, and "
            f"likelihood {scored} has no steps",
            hint,
        )
        return
    unit = getattr(likelihood, "unit", "sequence")
    if getattr(advantage, "per_step", False) and not (uses_steps and unit in ("step", "slot")):
        found.add(
            "advantage",
            f"advantage {judged} judges single denoising steps, and likelihood {scored} gives one "
            f"log-prob per {unit}",
            hint,
        )


def _units(recipe: Recipe, found: Found) -> None:
    loss, unit = recipe.loss, getattr(recipe.likelihood, "unit", "sequence")
    apart = not getattr(recipe.likelihood, "score_is_ratio", True)
    if apart and not getattr(loss, "uses_score", True):
        others = _names(LOSSES, lambda cls: getattr(cls, "uses_score", True) is True)
        found.add(
            "loss",
            f"loss {name_of(loss)} trains the ratio alone, and what likelihood "
            f"{name_of(recipe.likelihood)} is about is its score: it would have no effect",
            f"use a loss that trains the score: {others}; or likelihood elbo",
        )
    units = getattr(loss, "units", None)
    if units is None or unit in units:
        return
    fitting = _names(LOSSES, lambda cls: unit in getattr(cls, "units", (unit,)))
    others = _names(LIKELIHOODS, lambda cls: getattr(cls, "unit", None) in units)
    found.add(
        "loss",
        f"loss {name_of(loss)} works per {' or '.join(sorted(units))}, and likelihood "
        f"{name_of(recipe.likelihood)} gives one log-prob per {unit}",
        f"use a loss for that: {fitting}; or another likelihood: {others}",
    )


def _exact_kl(recipe: Recipe, found: Found) -> None:
    if getattr(recipe.loss, "needs_exact_kl", False) and not getattr(
        recipe.likelihood, "linear", True
    ):
        adding = _names(LIKELIHOODS, lambda cls: getattr(cls, "linear", True))
        found.add(
            "loss.kl",
            f"an exact KL needs log-probs that are plain sums over tokens, and those of likelihood "
            f"{name_of(recipe.likelihood)} are weighted",
            f"use kl: k3, or a likelihood that adds up tokens: {adding}",
        )


def _reference(recipe: Recipe, found: Found) -> None:
    loss, model = recipe.loss, recipe.model
    coef = getattr(loss, "kl_coef", 0)
    if getattr(loss, "kl", None) == "none" and coef not in (0, type(loss)().kl_coef):
        idle = f"loss.kl_coef {coef} has no effect with kl: none; kl: k3 would use it"
        recipe.notices.extend({idle} - set(recipe.notices))
    needed = getattr(loss, "needs_reference", False) or getattr(loss, "needs_exact_kl", False)
    if needed and model.reference == "none":
        found.add(
            "model.reference",
            f"loss {name_of(loss)} compares with a reference policy, and reference is none",
            "use reference: auto" + (", or loss.kl_coef: 0" if hasattr(loss, "kl_coef") else ""),
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
    P, M = train.prompts, train.minibatches
    needs_group = getattr(recipe.advantage, "needs_group", False)
    if found.sound("advantage", "train.group_size") and needs_group and train.group_size == 1:
        same = f"prompts: {P // 2}, group_size: 2 (as many sequences), or " if P > 1 else ""
        found.add(
            "train.group_size",
            f"advantage {name_of(recipe.advantage)} compares the samples of a prompt, and a group "
            f"of 1 has nothing to compare: prompts {P} x group_size 1 = {P} sequences",
            f"nearest: {same}prompts: {P}, group_size: 2",
        )
    sampler = recipe.sampler
    varies = getattr(sampler, "greedy_varies", False) or getattr(sampler, "given", None)
    alike = getattr(sampler, "temperature", 1.0) == 0 and not varies
    if found.sound("advantage", "sampler.temperature") and needs_group and alike:
        found.add(
            "sampler.temperature",
            f"a greedy sampler gives a prompt {train.group_size} equal answers, and advantage "
            f"{name_of(recipe.advantage)} compares them: nothing would be learned",
            "use a temperature above 0, such as 1.0; evaluation is greedy anyway",
        )
    T, K = getattr(recipe.sampler, "num_steps", None), getattr(selector, "steps", None)
    known = found.sound("sampler.steps", "sampler.answer_length", "selector.steps")
    if known and isinstance(T, int) and isinstance(K, int) and K > T:
        found.add(
            "selector.steps",
            f"the sampler runs {T} denoising steps, so {K} cannot be chosen",
            f"use selector.steps: {T} or less, or sampler.steps: {K}",
        )
    if not found.sound("train.prompts", "train.minibatches"):
        return
    if M > P:
        found.add(
            "train.minibatches",
            f"{M} minibatches of whole groups need {M} prompts, and a round has {P}",
            f"use minibatches: {P} or less, or prompts: {M}",
        )
    elif math.ceil(P / math.ceil(P / M)) != M:
        fewer = next(m for m in range(M - 1, 0, -1) if P % m == 0)
        more = next(m for m in range(M + 1, P + 1) if P % m == 0)
        found.add(
            "train.minibatches",
            f"{P} prompts cannot be cut into {M} minibatches of about equal size",
            f"nearest: minibatches: {fewer} or {more}; or prompts: {-(-P // M) * M}",
        )


def check_evaluation(recipe: Recipe, found: Found) -> None:
    """An evaluation that asks no model, or with step counts that its sampler cannot run."""
    evaluation = recipe.evaluate
    own = evaluation.sampler is not None
    key = "evaluate.sampler" if own else "sampler"
    sampler = evaluation.sampler if own else recipe.sampler
    for each in ("sampler", "evaluate.sampler") if recipe.stage == "rl" else (key,):
        _given(recipe, each, found)
    broken = any(path.startswith("evaluate.sampler") for path in found.known)
    if sampler is None or broken or not found.sound(key):
        return
    if getattr(sampler, "given", None) == "answers":
        N = getattr(sampler, "answer_length", 128)
        found.add(
            key,
            f"sampler {name_of(sampler)} hands out answers of the data, which say nothing about "
            f"the model, and evaluation would use it",
            f"add evaluate.sampler: {{name: low_confidence, answer_length: {N}, steps: ...}}",
        )
        return
    wanted = [("evaluate.steps", evaluation.steps)]
    wanted += [("evaluate.also_steps", steps) for steps in evaluation.also_steps]
    for path, steps in wanted:
        if steps is None or not found.sound(path):
            continue
        name = getattr(sampler, "steps_field", "steps")
        if not is_dataclass(sampler) or name not in {each.name for each in fields(sampler)}:
            found.add(path, f"sampler {name_of(sampler)} takes no steps", "remove the key")
            continue
        try:
            replace(sampler, **{name: steps})  # type: ignore[type-var]
        except (DllmzooError, ValueError) as error:
            said = getattr(error, "errors", lambda: [])()
            reason = said[0].get("ctx", {}).get("error", said[0]["msg"]) if said else error
            found.add(path, f"the sampler cannot take {steps} steps: {reason}")


def _given(recipe: Recipe, key: str, found: Found) -> None:
    """A sampler that is given answers, and the task that gives them."""
    sampler = recipe.sampler if key == "sampler" else recipe.evaluate.sampler
    kind = getattr(sampler, "given", None)
    if kind is None or recipe.task is None or not found.sound(key, "task"):
        return
    method = "given_blanks" if kind == "blanks" else "given"
    able = hasattr(recipe.task, "given") or hasattr(recipe.task, method)
    if not able or kind not in getattr(recipe.task, "gives", (kind,)):
        option = "infill: COLUMN" if kind == "blanks" else "answers: [COLUMN, COLUMN]"
        found.add(
            "task",
            f"sampler {name_of(sampler)} is given {kind} with every prompt, and task "
            f"{name_of(recipe.task)} gives none",
            f"use task: {{name: records, {option}, ...}}, sudoku, or one of your own with the "
            f"method `{method}(example, key, sample)`",
        )


def _uses_steps(recipe: Recipe) -> bool:
    return getattr(recipe.likelihood, "uses_steps", False)


def _with_steps() -> str:
    return _names(LIKELIHOODS, lambda cls: getattr(cls, "uses_steps", False))


def _without_steps() -> str:
    needy = ("needs_previews", "per_step")
    return _names(ADVANTAGES, lambda cls: not any(getattr(cls, each, False) for each in needy))


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
