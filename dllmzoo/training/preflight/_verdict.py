"""One line about one property of a policy, and what the checks look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch

from dllmzoo.errors import ModelError, TaskError
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.records import Key
from dllmzoo.training.method import Learner

Outcome = Literal["ok", "failed", "undecided", "skipped"]


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Args:
        name: of the property, `mask id`.
        outcome: `undecided` where this policy cannot show it, such as one with random weights;
            `skipped` where the recipe does not need it.
        message: the numbers it rests on, or what is wrong.
        hint: what to do about a failure; else empty.
    """

    name: str
    outcome: Outcome
    message: str
    hint: str = ""

    def __str__(self) -> str:
        line = f"{self.name}: {self.outcome}: {self.message}"
        return line + (f"\n    {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class Canvas:
    """A prompt and a right answer of the task, as token ids."""

    prompt: list[int]
    answer: list[int]


@dataclass(frozen=True)
class Subject:
    """A recipe with what it loaded.

    Args:
        recipe: checked.
        learner: as `make_learner` gives it.
        full: look at more, and take the time.
    """

    recipe: Recipe
    learner: Learner
    full: bool

    @cached_property
    def policy(self) -> Any:
        """The network without the wrapping of several processes."""
        return self.learner.accelerator.unwrap_model(self.learner.policy)

    @property
    def codec(self) -> Any:
        """Text to tokens and back."""
        return self.learner.codec

    @property
    def tokenizer(self) -> Any:
        """Of the codec."""
        return self.learner.codec.tokenizer

    @property
    def device(self) -> torch.device:
        """Where token rows are made."""
        return torch.device(self.codec.device)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return getattr(self.policy, "dtype", torch.float32)

    @cached_property
    def examples(self) -> list[Any]:
        """A few held-out examples.

        Raises:
            TaskError: there are none.
        """
        found = self.recipe.task.test(8 if self.full else 2)
        if not found:
            raise TaskError("the task has no held-out example")
        return found

    @cached_property
    def answers(self) -> list[str]:
        """Right answers to the examples, for supervised training; empty if the task has none."""
        key = Key(0, 0, "preflight")
        try:
            return [self.recipe.task.answer(e, key, row) for row, e in enumerate(self.examples)]
        except Exception:  # a task that is only rewarded need not know an answer
            return []

    @cached_property
    def canvases(self) -> list[Canvas]:
        """The examples as token ids, no longer than the policy can read.

        Raises:
            ModelError: the network has no embedding of some id.
            TaskError: no prompt leaves room for an answer.
        """
        rows, limit = [], self.codec.max_length
        for row, example in enumerate(self.examples):
            prompt = self.codec.prompt_ids(self.recipe.task.prompt(example))
            text = self.answers[row] if self.answers else ""
            answer = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
            room = None if limit is None else limit - len(prompt) - 1
            if prompt and (room is None or room > 0):
                rows.append(Canvas(prompt, answer[:room]))
        if not rows:
            raise TaskError("no example of the task has a prompt that leaves room for an answer")
        highest = max(max(each.prompt + each.answer) for each in rows)
        config = getattr(self.policy, "config", None)
        size = getattr(config, "num_embeddings", None) or getattr(config, "vocab_size", None)
        if isinstance(size, int) and highest >= size:
            raise ModelError(
                f"the tokenizer writes the id {highest}, and the network has {size} embeddings: "
                f"use the tokenizer that was published with these weights"
            )
        return rows
