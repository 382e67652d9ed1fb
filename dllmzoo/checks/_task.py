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
    """Ask the task about its data and what its stage needs; look at prompts where that is free.

    A task may offer `check() -> list[str]`, what is wrong with files that were named, and
    `problems(stage) -> list[str]`, what keeps it from `rl` or `sft`: no training data, or no
    sandbox for programs that rewards would run.
    """
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
    stage = recipe.stage if found.sound("stage") else "rl"
    problems = _said(lambda: list(getattr(recipe.task, "problems", lambda _: [])(stage)))
    problems += _said(lambda: list(getattr(recipe.task, "check", list)()))
    for problem in problems:
        found.quote("task", problem)
    if problems:
        return
    if getattr(recipe.task, "hub", None) is not None:
        return
    prompts: list[Any] = []
    wrong = _said(lambda: prompts.extend(map(recipe.task.prompt, recipe.task.test(LOOKED_AT))))
    for problem in wrong:
        found.quote("task", problem)
    if not wrong:
        style = "task.prompt_style" if hasattr(recipe.task, "prompt_style") else None
        _prompts(prompts, answers, found, network, style)


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
    prompts: list[Any], answers: Mapping[str, int], found: Found, network: Network,
    style: str | None,
) -> None:  # fmt: skip
    vocabulary = network.vocabulary
    if vocabulary is None:
        return
    plain = "plain prompts (prompt_style: compact), or " if style else ""
    if vocabulary.chat is False and any(not isinstance(each, str) for each in prompts):
        found.add(
            style or "task",
            "the task asks in chat messages, and the tokenizer has no chat template",
            f"use {plain}the weights, or `model.tokenizer`, of an instruct model",
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
