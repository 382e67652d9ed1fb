"""The random numbers of a sampler, and the seam by which a test supplies its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from dllmzoo.records import Key


@dataclass(frozen=True)
class Slots:
    """Masked answer slots that one forward looks at, flat, ordered by row and then by slot.

    Args:
        step: denoising step; int64 (S,) where rows stand at different ones.
        row_S: int64, row of the prompts.
        slot_S: int64 in [0, N), position within the answer.
    """

    step: int | Tensor
    row_S: Tensor
    slot_S: Tensor

    def part(self, start: int, stop: int) -> Slots:
        """Slots start to stop of the flat order."""
        step = self.step if isinstance(self.step, int) else self.step[start:stop]
        return Slots(step, self.row_S[start:stop], self.slot_S[start:stop])


class Noise(Protocol):
    """Where a sampler gets its random choices from; one object serves one call."""

    def token(self, logits_SV: Tensor, temperature: float, at: Slots) -> Tensor:
        """token_S drawn from softmax(logits / temperature); called at temperatures above 0.

        Args:
            logits_SV: float32, guided, end rule applied, -inf at the mask token.
            temperature: > 0.
            at: the S slots.
        """
        ...

    def priority(self, at: Slots) -> Tensor:
        """priority_S float32 of an order that does not look at the model; highest goes first."""
        ...


@dataclass(frozen=True)
class KeyedNoise:
    """Numbers of a key: those of row i depend on `sample_B[i]` alone.

    Tokens are drawn by inverse CDF, with one uniform number for each (sample, step, slot): no
    number is shared, and none depends on how many slots are still masked.

    Args:
        key: of the round.
        sample_B: int64, index of each row in the round.
        num_steps: T, or the most steps in a row that one slot can be drawn in: steps count modulo
            this number.
        answer_length: N.
        device: where the numbers are needed.
    """

    key: Key
    sample_B: Tensor
    num_steps: int
    answer_length: int
    device: torch.device

    @cached_property
    def _uniform_BTN(self) -> Tensor:
        uniform = self.key.uniform(self.sample_B, self.num_steps, self.answer_length)
        return uniform.to(self.device)

    @cached_property
    def _priority_BN(self) -> Tensor:
        key = self.key.sub("order")
        return key.uniform(self.sample_B, self.answer_length).to(self.device)

    def token(self, logits_SV: Tensor, temperature: float, at: Slots) -> Tensor:
        """token_S by inverse CDF; a token of probability 0 is never drawn."""
        uniform_S = self._uniform_BTN[at.row_S, at.step % self.num_steps, at.slot_S]
        return inverse_cdf(tempered(logits_SV, temperature).softmax(-1), uniform_S)

    def priority(self, at: Slots) -> Tensor:
        """One number for each slot, the same at every step: a uniformly random order."""
        return self._priority_BN[at.row_S, at.slot_S]


def inverse_cdf(prob_SV: Tensor, uniform_S: Tensor) -> Tensor:
    """token_S: the first token whose cumulative probability exceeds the uniform number.

    Probabilities are counted in whole units of 2^-52, so that their running sum is exact and the
    same on every device, and a token of probability 0 can never be hit.

    Args:
        prob_SV: >= 0; need not add up to 1 exactly.
        uniform_S: in [0, 1).
    """
    count_SV = (prob_SV * 2.0**52).long().cumsum(-1)  # exact: a power of two
    target_S1 = (uniform_S.double().unsqueeze(1) * count_SV[:, -1:]).long()
    token_S = torch.searchsorted(count_SV, target_S1, right=True).squeeze(1)
    return token_S.clamp(max=prob_SV.shape[1] - 1)  # NaN probabilities stay inside the vocabulary


def tempered(logits_SV: Tensor, temperature: float) -> Tensor:
    """Logits of the law at a temperature > 0, shifted so that small temperatures stay finite."""
    return (logits_SV - logits_SV.amax(-1, keepdim=True)) / temperature
