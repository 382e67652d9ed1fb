"""How `eval` asks: the recipe and the sampler of each answer length, presets included."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dllmzoo.cli import _output as out
from dllmzoo.cli import _policies as policies
from dllmzoo.cli import _recipes as recipes
from dllmzoo.errors import UsageError

if TYPE_CHECKING:
    from dllmzoo.recipe import Recipe
    from dllmzoo.training.presets import Preset

FEWEST_SAMPLES = {"aime24": 8}
"""Tasks so small that one answer to each problem says little: answers that are asked for."""


READ = ("task", "sampler", "evaluate", "plugins")
"""Sections of a recipe that an evaluation reads."""


@dataclass(frozen=True)
class Wanted:
    """What the flags of `eval` say.

    Args:
        preset: name of a published protocol.
        lengths: answer lengths; none = that of the recipe.
        samples: answers to each example.
        temperature: None = greedy, with several samples that of the training sampler.
        steps: denoising steps.
        seed: of the random choices.
    """

    preset: str | None = None
    lengths: tuple[int, ...] = ()
    samples: int = 1
    temperature: float | None = None
    steps: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Plan:
    """One evaluation: task and options of `recipe`, answers of `sampler`."""

    recipe: Recipe
    sampler: Any


def parse_lengths(text: str | None) -> tuple[int, ...]:
    """`128,256` as numbers.

    Raises:
        UsageError: something else than numbers > 0, or one of them twice.
    """
    words = [] if text is None else [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise UsageError(f"--lengths is {text!r}; write answer lengths as 128,256,512")
    lengths = tuple(map(int, words))
    if len(set(lengths)) < len(lengths):
        raise UsageError(f"--lengths {text} names a length twice")
    return lengths


def plans(
    source: policies.Source, recipe: str | None, changes: Sequence[str], task: str | None,
    wanted: Wanted,
) -> list[Plan]:  # fmt: skip
    """One evaluation for each answer length; says what the user should know.

    Raises:
        UsageError: settings that do not go together.
        RecipeError: the recipe or a change does not fit.
    """
    recipes.refuse_unread(changes, "eval", READ)
    before = policies.recipe_for(source, recipe, changes, task=task)
    notes: dict[str, None] = {}
    found = []
    for length in wanted.lengths or (None,):
        made, sampler = before, policies.sampler_of(before, changes)
        if wanted.preset is not None:
            made = _under(wanted.preset, source, recipe, changes, before, length, notes)
            sampler = policies.sampler_of(made, changes)
        steps = wanted.steps or made.evaluate.steps
        sampler = policies.evaluated(
            sampler, steps, answer_length=length, temperature=_temperature(before, sampler, wanted)
        )
        notes |= dict.fromkeys(f"note: {notice}" for notice in made.notices)
        if wanted.preset is not None:
            notes |= dict.fromkeys(_conflicts(wanted.preset, made, sampler))
        found.append(Plan(made, sampler))
    warm = any(word.startswith("sampler.temperature=") for word in changes)
    if warm and wanted.temperature is None and wanted.samples == 1:
        notes["note: eval is greedy; --temperature or --samples make it draw"] = None
    notes |= dict.fromkeys(_too_few(before, wanted))
    if out.is_main_process():
        for note in notes:
            out.warn(note)
    return found


def _temperature(recipe: Recipe, sampler: Any, wanted: Wanted) -> float:
    """Of the answers.

    Raises:
        UsageError: several answers to each example that would all be the same.
    """
    chosen = wanted.temperature
    if chosen is None:
        trained = getattr(recipe.sampler, "temperature", None)
        chosen = 0.0 if wanted.samples == 1 else trained
    if wanted.samples > 1 and not chosen and not getattr(sampler, "greedy_varies", False):
        raise UsageError(
            f"--samples {wanted.samples} at temperature 0 would give the same answer each time; "
            f"name one with --temperature"
        )
    return chosen or 0.0


def _under(
    name: str, source: policies.Source, recipe: str | None, changes: Sequence[str], before: Recipe,
    length: int | None, notes: dict[str, None],
) -> Recipe:  # fmt: skip
    """The recipe with a protocol's settings below the user's changes.

    Args:
        name: of the protocol.
        source: as the user gave it.
        recipe: as the user gave it.
        changes: as the user gave them.
        before: the recipe without the protocol.
        length: tokens of an answer; None = the recipe's.
        notes: grows.
    """
    from dllmzoo.recipe.plain import name_of
    from dllmzoo.training.presets import preset

    chosen = preset(name)
    tokens: int = length or policies.sampler_of(before, changes).answer_length
    task = name_of(before.task)
    options = {"name": task}
    for option, value in chosen.task.get(task, {}).items():
        if _takes(before.task, option, value):
            options[option] = value
        else:
            notes[
                f"note: preset {name} says task.{option} {value}, which {task} does not know; it "
                f"stays {getattr(before.task, option, 'out')}"
            ] = None
    wanted = [
        f"task={json.dumps(options)}", "evaluate.steps=null", "evaluate.sampler=null",
        f"sampler={json.dumps(_sampler(chosen, changes, before, tokens))}",
    ]  # fmt: skip
    return policies.recipe_for(source, recipe, [*wanted, *changes], task=None, quiet=True)


def _sampler(chosen: Preset, changes: Sequence[str], before: Recipe, length: int) -> dict[str, Any]:
    """The protocol's sampler; where the user names another one, what that knows of its options."""
    from dllmzoo.recipe.plain import name_of
    from dllmzoo.training.evaluate import steps_field
    from dllmzoo.zoo import SAMPLERS

    options = {**chosen.sampler, "answer_length": length}
    part: Any = SAMPLERS.get(chosen.sampler["name"])
    if any(_names_sampler(word) for word in changes):
        part = before.sampler
        options["name"] = name_of(part)
    if not any(word.startswith("sampler.threshold=") for word in changes):
        options[steps_field(part)] = chosen.steps(length)
    known = {"name", *(each.name for each in dataclasses.fields(part))}
    return {option: value for option, value in options.items() if option in known}


def _names_sampler(word: str) -> bool:
    """Whether a change may name another sampler: `sampler=NAME`, `sampler={name: NAME}`."""
    return word.startswith(("sampler=", "sampler.name="))


def _takes(task: Any, option: str, value: Any) -> bool:
    """Whether a task has an option that may be of that value."""
    hints = typing.get_type_hints(type(task))
    if option not in hints:
        return False
    choices = typing.get_args(hints[option])
    return not choices or value in choices


def _conflicts(name: str, recipe: Recipe, sampler: Any) -> list[str]:
    """What of a protocol the user has asked to be otherwise."""
    from dllmzoo.recipe.plain import name_of, plain_part
    from dllmzoo.training.evaluate import steps_field
    from dllmzoo.training.presets import preset

    chosen = preset(name)
    steps = {steps_field(sampler): chosen.steps(sampler.answer_length)}
    answers = {**chosen.sampler, **steps, "temperature": chosen.temperature}
    asked = {
        option: value
        for option, value in chosen.task.get(name_of(recipe.task), {}).items()
        if _takes(recipe.task, option, value)
    }
    found = []
    for key, wanted, part in (("sampler", answers, sampler), ("task", asked, recipe.task)):
        actual = plain_part(part)
        for option, value in wanted.items():
            given = actual.get(option)
            given = given["name"] if isinstance(given, dict) and "name" in given else given
            if option in actual and given != value:
                found.append(
                    f"note: preset {name} says {key}.{option} {value}; your {given} is used"
                )
    return found


def _too_few(recipe: Recipe, wanted: Wanted) -> list[str]:
    """Where one answer to each problem says little."""
    from dllmzoo.recipe.plain import name_of

    task = name_of(recipe.task)
    fewest = FEWEST_SAMPLES.get(task, 1)
    if wanted.samples >= fewest:
        return []
    return [
        f"note: {task} has so few problems that one of them moves the rate by points; report the "
        f"mean over at least {fewest} answers to each: --samples {fewest}"
    ]
