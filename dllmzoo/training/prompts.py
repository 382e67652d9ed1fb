"""Text to token rows and back: the only place where a task meets a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Sampler, Task
from dllmzoo.records import Example, Key, Prompts
from dllmzoo.tasks._given import BLANK
from dllmzoo.training.chat import Messages, render, split, without_rest

Tail = Literal["canvas", "batch", "end"]
TooLong = Literal["refuse", "drop"]


class Demonstrated(NamedTuple):
    """Demonstrations as rows.

    Args:
        prompts: left-padded; of a row that is left out one end token.
        answer_BN: int64, end tokens behind each answer.
        real_BN: bool, False = padding; one slot of a row that is left out.
        kept_B: bool, False = left out: nothing of the row is learnt.
    """

    prompts: Prompts
    answer_BN: Tensor
    real_BN: Tensor
    kept_B: Tensor


@dataclass(frozen=True)
class Codec:
    """A tokenizer with the ids of one model.

    Args:
        tokenizer: a Hugging Face tokenizer.
        mask_id: of the model.
        stop_ids: tokens that end an answer; the first one fills an answer's tail.
        max_length: most tokens of prompt + answer, or None.
        device: where token tensors are made.
    """

    tokenizer: Any
    mask_id: int
    stop_ids: tuple[int, ...]
    max_length: int | None = None
    device: torch.device | str = "cpu"

    @property
    def filler(self) -> int:
        """Token under padding and behind a demonstration: the end token if there is one."""
        return self.stop_ids[0] if self.stop_ids else 0

    def prompt_ids(self, prompt: str | Messages) -> list[int]:
        """Token ids of plain text, or of messages through the tokenizer's chat template.

        A last message of the assistant is left open: the answer goes on from it.
        """
        if isinstance(prompt, str):
            return self._ids(prompt)
        ids = self._ids(render(self.tokenizer, prompt, opened=True))
        start = getattr(self.tokenizer, "bos_token_id", None)
        if start is not None and ids[:2] == [start, start]:
            raise TaskError(
                "the chat template starts a prompt with two start tokens; take one out of it"
            )
        return ids

    def prompts(
        self,
        task: Task,
        examples: Sequence[Example],
        group_size: int,
        *,
        answer_length: int,
        first: int = 0,
    ) -> Prompts:
        """Rows of `examples`, each repeated `group_size` times, left-padded to one width.

        Args:
            task: renders the prompt.
            examples: of this process.
            group_size: G.
            answer_length: N, for the check against the model's longest sequence.
            first: index in the round of the first example, before sharding.

        Raises:
            TaskError: a prompt leaves no room for the answer; prompts are never cut.
        """
        ids = [self.prompt_ids(task.prompt(example)) for example in examples]
        longest = max(map(len, ids), default=0)
        if self.max_length is not None and longest + answer_length > self.max_length:
            raise TaskError(
                f"a prompt of {longest} tokens and an answer of {answer_length} exceed the "
                f"model's {self.max_length}; shorten `sampler.answer_length` or drop the example"
            )
        return self._rows(ids, examples, group_size, first)

    def _rows(
        self, ids: Sequence[list[int]], examples: Sequence[Example], group_size: int, first: int
    ) -> Prompts:
        longest = max(map(len, ids), default=0)
        tokens_PL = torch.full((len(ids), longest), self.filler)
        attend_PL = torch.zeros(len(ids), longest, dtype=torch.bool)
        for row, tokens in enumerate(ids):
            tokens_PL[row, longest - len(tokens) :] = torch.tensor(tokens, dtype=torch.long)
            attend_PL[row, longest - len(tokens) :] = True
        group_B = first + torch.arange(len(ids)).repeat_interleave(group_size)
        sample_B = first * group_size + torch.arange(len(ids) * group_size)
        return Prompts(
            tokens_PL.repeat_interleave(group_size, 0).to(self.device),
            attend_PL.repeat_interleave(group_size, 0).to(self.device),
            group_B.to(self.device),
            sample_B.to(self.device),
            [example for example in examples for _ in range(group_size)],
        )

    def texts(self, tokens_BN: Tensor) -> list[str]:
        """Answers as text: up to, and without, the first end token; no special tokens."""
        stops = torch.tensor(self.stop_ids, device=tokens_BN.device)
        ended_BN = torch.isin(tokens_BN, stops).long().cumsum(1) > 0
        kept = [
            row[~ended].tolist() for row, ended in zip(tokens_BN.cpu(), ended_BN.cpu(), strict=True)
        ]
        return self.tokenizer.batch_decode(kept, skip_special_tokens=True)

    def demonstrations(
        self,
        task: Task,
        examples: Sequence[Example],
        key: Key,
        *,
        answer_length: int,
        first: int = 0,
        tail: Tail = "canvas",
        too_long: TooLong = "refuse",
        row_length: int | None = None,
        widest: Callable[[int], int] = int,
    ) -> Demonstrated:
        """Prompts and their demonstrations; an answer to messages ends as the template ends it.

        Args:
            task: prompts and answers.
            examples: of this process.
            key: of answers that are drawn.
            answer_length: N, most tokens of an answer.
            first: index in the round of the first example, before sharding.
            tail: what follows an answer, see `recipe.sections.Sft`.
            too_long: what becomes of a demonstration that does not fit.
            row_length: most tokens of a packed row, which a demonstration has to fit; None = any.
            widest: longest answer here -> longest of all processes; read with `tail: batch`.

        Raises:
            TaskError: a demonstration does not fit, or its tail needs an end token that the model
                has not; nothing is ever cut.
        """
        pairs = [
            self._demonstration(task, example, key, first + row)
            for row, example in enumerate(examples)
        ]
        problems = [self._too_long(*pair, answer_length, tail, row_length) for pair in pairs]
        if too_long == "refuse":
            for problem in filter(None, problems):
                raise TaskError(f"{problem}, or leave such rows out (sft.too_long: drop)")
        kept = [problem is None for problem in problems]
        pairs = [
            pair if keep else ([self.filler], []) for pair, keep in zip(pairs, kept, strict=True)
        ]
        if tail == "end":
            pairs = [(prompt, self._ended(answer, answer_length)) for prompt, answer in pairs]
        width = answer_length
        if tail != "canvas":
            width = max((len(answer) for _, answer in pairs), default=1) or 1
        if tail == "batch":
            width = widest(width)
        answer_BN = torch.full((len(pairs), width), self.filler)
        real_BN = torch.zeros_like(answer_BN, dtype=torch.bool)
        for row, (prompt, answer) in enumerate(pairs):
            filled = len(answer) if tail == "end" else min(width, self._room(prompt, width))
            if len(answer) < filled and kept[row] and not self.stop_ids:
                raise TaskError(_no_end("a demonstration", len(answer), filled))
            answer_BN[row, : len(answer)] = torch.tensor(answer, dtype=torch.long)
            real_BN[row, : filled if kept[row] else 1] = True
        prompts = self._rows([prompt for prompt, _ in pairs], examples, 1, first)
        made = (answer_BN, real_BN, torch.tensor(kept, dtype=torch.bool))
        return Demonstrated(prompts, *(each.to(self.device) for each in made))

    def misfit(
        self, task: Task, example: Example, key: Key, *, answer_length: int, tail: Tail,
        row_length: int | None = None,
    ) -> str | None:  # fmt: skip
        """What is wrong with the length of a demonstration; None if it fits.

        Args:
            task: prompts and answers.
            example: one of its.
            key: of answers that are drawn.
            answer_length: N, most tokens of an answer.
            tail: what follows an answer, see `recipe.sections.Sft`.
            row_length: most tokens of a packed row; None = any.

        Raises:
            TaskError: it cannot be written at all.
        """
        pair = self._demonstration(task, example, key, 0)
        return self._too_long(*pair, answer_length, tail, row_length)

    def _demonstration(
        self, task: Task, example: Example, key: Key, sample: int
    ) -> tuple[list[int], list[int]]:
        """Ids of a prompt and of its answer, neither padded nor filled."""
        prompt, answer = task.prompt(example), task.answer(example, key, sample)
        if isinstance(prompt, str):
            return self._ids(prompt), self._ids(answer)
        _, text = split(self.tokenizer, prompt, answer)
        return self.prompt_ids(prompt), without_rest(self.tokenizer, self._ids(text), self.stop_ids)

    def _too_long(
        self, prompt: list[int], answer: list[int], answer_length: int, tail: Tail,
        row_length: int | None,
    ) -> str | None:  # fmt: skip
        """What is wrong with a demonstration's length, and what to change; None if it fits."""
        if len(answer) > answer_length:
            return (
                f"a demonstration has {len(answer)} tokens, the answer canvas {answer_length}; "
                f"raise `sampler.answer_length`"
            )
        filled = answer_length if tail == "canvas" else len(answer)
        if filled > self._room(prompt, filled):
            return (
                f"a prompt of {len(prompt)} tokens and an answer of {filled} exceed the model's "
                f"{self.max_length}; shorten `sampler.answer_length` or drop the example"
            )
        ended = len(self._ended(answer, answer_length)) if tail == "end" else filled
        if row_length is not None and len(prompt) + ended > row_length:
            return (
                f"a prompt and its answer have {len(prompt) + ended} tokens, and a packed row "
                f"{row_length}; raise `sft.pack`"
            )
        return None

    def _room(self, prompt: list[int], wanted: int) -> int:
        """Tokens that the model can read behind a prompt, as many as are wanted at most."""
        return wanted if self.max_length is None else min(self.max_length - len(prompt), wanted)

    def _ended(self, answer: list[int], answer_length: int) -> list[int]:
        """The answer with one end token, if it has none and there is room."""
        if not answer or len(answer) == answer_length or answer[-1] in self.stop_ids:
            return answer
        if not self.stop_ids:
            raise TaskError(_no_end("a demonstration", len(answer), len(answer) + 1))
        return [*answer, self.filler]

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def with_given(self, prompts: Prompts, task: Task, sampler: Sampler, key: Key) -> Prompts:
        """The prompts with the answers that the sampler wants to be given, if it wants any.

        The task's method `given(example, key, sample) -> str` makes the text of a row; for texts
        with blanks its method `given_blanks` does, if it has one. A blank token is spelled
        `[MASK]` or as the tokenizer spells its mask token.

        Args:
            prompts: rows with their final sample numbers.
            task: makes the texts.
            sampler: its `given` is `answers`, `blanks` or missing.
            key: of the round.

        Raises:
            TaskError: the task gives none, or a text does not fit the canvas.
        """
        kind = getattr(sampler, "given", None)
        if kind is None:
            return prompts
        give = getattr(task, "given", None)
        if kind == "blanks":
            give = getattr(task, "given_blanks", give)  # a task may know both kinds
        if give is None:
            raise TaskError(
                f"the sampler wants {kind} to be given with every prompt, and the task "
                f"{type(task).__name__} has no method `given(example, key, sample)`"
            )
        samples = prompts.sample_B.tolist()
        texts = [
            give(example, key, sample)
            for example, sample in zip(prompts.examples, samples, strict=True)
        ]
        length: int = sampler.answer_length  # type: ignore[attr-defined]
        if kind == "blanks":
            texts = [text.replace(BLANK, self.mask_text) for text in texts]
        answer_BN = self.answers(texts, length, "a given answer")
        if kind == "blanks":
            self._check_blanks(texts, answer_BN)
        return replace(prompts, answer_BN=answer_BN)

    def answers(self, texts: Sequence[str], answer_length: int, what: str) -> Tensor:
        """answer_BN of texts, the tail filled with end tokens.

        Args:
            texts: one a row.
            answer_length: N.
            what: how messages call a text.

        Raises:
            TaskError: a text is longer than the answer canvas, or shorter without an end token.
        """
        answer_BN = torch.full((len(texts), answer_length), self.filler)
        for row, text in enumerate(texts):
            ids = self._ids(text)
            if len(ids) > answer_length:
                raise TaskError(
                    f"{what} has {len(ids)} tokens, the answer canvas {answer_length}; "
                    f"raise `sampler.answer_length`"
                )
            if len(ids) < answer_length and not self.stop_ids:
                raise TaskError(_no_end(what, len(ids), answer_length))
            answer_BN[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        return answer_BN.to(self.device)

    @property
    def mask_text(self) -> str:
        """The mask token of the model as its tokenizer spells it."""
        spelled = self.tokenizer.convert_ids_to_tokens(self.mask_id)
        if not isinstance(spelled, str):
            raise TaskError(
                f"the tokenizer has no token of the model's mask id {self.mask_id}, so no text can "
                f"hold a blank; use the tokenizer of the model"
            )
        return spelled

    def _check_blanks(self, texts: Sequence[str], answer_BN: Tensor) -> None:
        """Refuse a tokenizer that cuts its mask token into pieces."""
        found_B = (answer_BN == self.mask_id).sum(1).tolist()
        for text, found in zip(texts, found_B, strict=True):
            if found != (wanted := text.count(self.mask_text)):
                raise TaskError(
                    f"a given answer has {wanted} blanks, and the tokenizer makes {found} mask "
                    f"tokens of them: {self.mask_text!r} must be a special token of it"
                )


def _no_end(what: str, length: int, answer_length: int) -> str:
    return (
        f"{what} has {length} tokens, the answer canvas {answer_length}, and the model has no end "
        f"token to fill the rest; set `sampler.answer_length` to {length} or give the model's "
        f"config an `eos_token_id`"
    )
