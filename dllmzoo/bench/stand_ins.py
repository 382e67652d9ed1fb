"""What a round needs around the network: a task, a codec, a sampler with its rollout ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.bench.place import Place
from dllmzoo.records import Example, Key, Prompts, Rewards, Rollout


@dataclass(frozen=True)
class Words:
    """A task whose reward is the share of even words in a text."""

    def draw(self, num: int, key: Key) -> list[Example]:
        """Examples are empty: prompts are random words."""
        return [{} for _ in range(num)]

    def prompt(self, example: Example) -> str:
        """Nothing: the codec makes prompts."""
        return ""

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """Rewards in [0, 1]."""
        each = [[int(word) % 2 == 0 for word in text.split()] or [False] for text in texts]
        total_X = torch.tensor([sum(even) / len(even) for even in each])
        counted_X = torch.ones(len(texts), dtype=torch.bool)
        outcome_XC = torch.zeros(len(texts), 1, dtype=torch.int8)
        return Rewards(total_X, total_X.unsqueeze(1), ("even",), counted_X, outcome_XC)

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> Mapping[str, Any]:
        """None."""
        return {}


@dataclass(frozen=True)
class TokenCodec:
    """Text and tokens without a tokenizer: a word is a number.

    Args:
        place: where tensors are made.
        length: tokens of a prompt.
        vocabulary: words and the two special tokens behind them.
    """

    place: Place
    length: int
    vocabulary: int

    @property
    def device(self) -> torch.device:
        """Where tensors are made."""
        return self.place.device

    def prompt_ids(self, prompt: Any) -> list[int]:
        """Of a prompt's length; the words are drawn in `prompts`."""
        return [0] * self.length

    def prompts(
        self, task: Any, examples: Sequence[Example], group_size: int, *, answer_length: int
    ) -> Prompts:
        """Random words, each row repeated `group_size` times."""
        words = self.place.tokens(len(examples), self.length, self.vocabulary)
        made = self.place.prompts(words.repeat_interleave(group_size, 0))
        return replace(made, group_B=made.group_B // group_size)

    def with_given(self, prompts: Prompts, task: Any, sampler: Any, key: Key) -> Prompts:
        """Nothing is given."""
        return prompts

    def texts(self, tokens_BN: Tensor) -> list[str]:
        """Numbers with blanks between them."""
        return [" ".join(map(str, row)) for row in tokens_BN.tolist()]


class Ready:
    """A sampler that hands out one finished rollout.

    Args:
        made: the rollout.
    """

    def __init__(self, made: Rollout) -> None:
        """Remember it."""
        self.made = made

    def __getattr__(self, name: str) -> Any:
        """Settings are those of the sampler that the rollout names."""
        return getattr(self.made.sampler, name)

    def __call__(self, policy: Any, prompts: Prompts, key: Key) -> Rollout:
        """The rollout, with the groups of the prompts."""
        return replace(
            self.made, group_B=prompts.group_B, sample_B=prompts.sample_B,
            examples=prompts.examples,
        )  # fmt: skip
