"""Data that are not there, and prompts that the model cannot read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dllmzoo.checks._files import Network
from dllmzoo.checks._found import Found
from dllmzoo.errors import DllmzooError
from dllmzoo.recipe.recipe import Recipe

LOOKED_AT = 4
"""Held-out examples whose prompts are rendered."""


def check_task(recipe: Recipe, found: Found, network: Network) -> None:
    """Ask the task about its data; look at prompts where that costs nothing."""
    if recipe.task is None or not found.sound("task"):
        return
    answers = _answers(recipe, found)
    longest = network.longest
    for key, answer in answers.items():
        if longest is not None and answer >= longest:
            found.add(
                key,
                f"an answer of {answer} tokens leaves no room for a prompt: the model's longest "
                f"sequence is {longest}",
            )
    if problems := _said(lambda: list(getattr(recipe.task, "check", list)())):
        for problem in problems:
            found.quote("task", problem)
        return
    if getattr(recipe.task, "hub", None) is not None:
        return
    prompts: list[Any] = []
    wrong = _said(lambda: prompts.extend(map(recipe.task.prompt, recipe.task.test(LOOKED_AT))))
    for problem in wrong:
        found.quote("task", problem)
    if not wrong:
        _prompts(prompts, answers, found, network)


def _answers(recipe: Recipe, found: Found) -> dict[str, int]:
    """Key -> tokens of an answer, of the samplers of training and evaluation."""
    samplers = {"sampler": recipe.sampler, "evaluate.sampler": recipe.evaluate.sampler}
    lengths = {
        f"{key}.answer_length": getattr(sampler, "answer_length", None)
        for key, sampler in samplers.items()
        if found.sound(key)
    }
    return {k: n for k, n in lengths.items() if isinstance(n, int) and found.sound(k)}


def _said(ask: Callable[[], list[str] | None]) -> list[str]:
    """What a task answers; what it raises is an answer too."""
    try:
        return ask() or []
    except DllmzooError as error:
        return [str(error)]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def _prompts(
    prompts: list[Any], answers: Mapping[str, int], found: Found, network: Network
) -> None:
    vocabulary = network.vocabulary
    if vocabulary is None:
        return
    if vocabulary.chat is False and any(not isinstance(each, str) for each in prompts):
        found.add(
            "task.prompt_style",
            "the task asks in chat messages, and the tokenizer has no chat template",
            "use plain prompts (prompt_style: compact), or the weights of an instruct model",
        )
        return
    if vocabulary.characters is None:
        return
    unknown = sorted({each for prompt in prompts for each in prompt} - set(vocabulary.characters))
    if unknown:
        found.add(
            "task",
            f"prompts hold {', '.join(map(repr, unknown[:5]))}, and the tokenizer knows only the "
            f"characters {vocabulary.characters!r}",
        )
    length, longest = max(map(len, prompts), default=0), network.longest
    for key, answer in answers.items():
        if longest is not None and answer < longest < length + answer:
            found.add(
                key,
                f"a prompt of {length} tokens and an answer of {answer} exceed the model's longest "
                f"sequence, {longest}",
                f"use answer_length: {longest - length} or less",
            )
