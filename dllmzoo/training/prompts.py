"""Text to token rows and back: the only place where a task meets a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Sampler, Task
from dllmzoo.records import Example, Key, Prompts
from dllmzoo.tasks._given import BLANK


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

    def prompt_ids(self, prompt: str | list[dict[str, str]]) -> list[int]:
        """Token ids of plain text, or of messages through the tokenizer's chat template.

        A last message of the assistant is left open: the answer goes on from it.
        """
        if isinstance(prompt, str):
            return list(self.tokenizer(prompt, add_special_tokens=False)["input_ids"])
        if not getattr(self.tokenizer, "chat_template", None):
            raise TaskError(
                "the task asks in chat messages, but this tokenizer has no chat template; "
                "set `task.prompt_style` to plain text or use the tokenizer of an instruct model"
            )
        begun = prompt[-1]["role"] == "assistant"  # a prompt may begin the answer
        ids = self.tokenizer.apply_chat_template(
            prompt, add_generation_prompt=not begun, continue_final_message=begun, tokenize=True,
            return_dict=False,
        )  # fmt: skip
        return list(ids)

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
    ) -> tuple[Prompts, Tensor]:
        """Prompts and their demonstrations as answer_BN, the tail filled with end tokens.

        Raises:
            TaskError: a demonstration is longer than the answer canvas.
        """
        prompts = self.prompts(task, examples, 1, answer_length=answer_length, first=first)
        texts = [task.answer(example, key, first + row) for row, example in enumerate(examples)]
        return prompts, self.answers(texts, answer_length, "a demonstration")

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
            ids = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
            if len(ids) > answer_length:
                raise TaskError(
                    f"{what} has {len(ids)} tokens, the answer canvas {answer_length}; "
                    f"raise `sampler.answer_length`"
                )
            if len(ids) < answer_length and not self.stop_ids:
                raise TaskError(
                    f"{what} has {len(ids)} tokens, the answer canvas {answer_length}, "
                    f"and the model has no end token to fill the rest; set `sampler.answer_length` "
                    f"to {len(ids)} or give the model's config an `eos_token_id`"
                )
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
