"""Data that are not there, and prompts that the model cannot read."""

from __future__ import annotations

from typing import Any

from dllmzoo.checks._files import Network
from dllmzoo.checks._found import Found
from dllmzoo.errors import DllmzooError
from dllmzoo.recipe.recipe import Recipe

LOOKED_AT = 4
"""Held-out examples whose prompts are rendered."""


def check_task(recipe: Recipe, found: Found, network: Network) -> None:
    """Ask the task about its data; look at prompts where that costs nothing."""
    if not found.sound("task"):
        return
    answer = getattr(recipe.sampler, "answer_length", None)
    answer = answer if found.sound("sampler.answer_length") else None
    longest = network.longest
    if longest is not None and isinstance(answer, int) and answer >= longest:
        found.add(
            "sampler.answer_length",
            f"an answer of {answer} tokens leaves no room for a prompt: the model's longest "
            f"sequence is {longest}",
        )
    problems: list[str] = []
    try:
        problems = list(getattr(recipe.task, "check", list)())
    except DllmzooError as error:
        problems = [str(error)]
    for problem in problems:
        found.quote("task", problem)
    if problems or getattr(recipe.task, "hub", None) is not None:
        return
    try:
        prompts = [recipe.task.prompt(each) for each in recipe.task.test(LOOKED_AT)]
    except DllmzooError as error:
        found.quote("task", str(error))
        return
    _prompts(prompts, answer, found, network)


def _prompts(prompts: list[Any], answer: int | None, found: Found, network: Network) -> None:
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
    if longest is not None and answer is not None and answer < longest < length + answer:
        found.add(
            "sampler.answer_length",
            f"a prompt of {length} tokens and an answer of {answer} exceed the model's longest "
            f"sequence, {longest}",
            f"use answer_length: {longest - length} or less",
        )
