"""From logits to one candidate token for each masked slot, with what is recorded about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

from dllmzoo.samplers._filters import likeliest
from dllmzoo.samplers._noise import Noise, Slots, tempered

EndRule = Literal["none", "logits_inf", "confidence_inf"]
"""How a sampler keeps end tokens from flooding the answer."""

ConfidenceRule = Literal["temperature_one", "before_filters", "after_filters"]
"""Which probability of its token is the confidence of a candidate."""

ELEMENTS = {"cpu": 2**19}
"""Float32 numbers of one chunk of logits, by device: on a CPU what its caches hold."""

ELEMENTS_ELSEWHERE = 2**25
"""128 MiB, whatever the vocabulary."""

HELD_BACK = -1e30
"""Certainty below every other, and above that of a slot without a candidate."""

Certainty = Callable[[Tensor, Tensor, Noise, Slots], Tensor]
"""(prob_SV, token_S, noise, at) -> certainty_S: the slots of highest certainty are committed."""


@dataclass(frozen=True)
class Law:
    """How a candidate is drawn from logits.

    Args:
        temperature: >= 0; 0 takes the most likely token, the lowest id among equals.
        end_rule: `logits_inf` forbids the end-of-text token in everything; `confidence_inf` draws
            as usual, then leaves every stop token out of the probabilities that order slots.
        mask_id: never drawn.
        stop_ids: the first one is the end-of-text token.
        never: further tokens that are never drawn.
        top_k: draw from the k likeliest tokens only; 0 = from all. As `top_p` of no meaning to a
            greedy draw.
        top_p: draw from the fewest tokens, likeliest first, that hold this probability of what
            `top_k` leaves; 1 = from all.
        confidence: probability of the token at temperature 1; at `temperature`, before the filters;
            or in the law that it was drawn from, after them.
    """

    temperature: float
    end_rule: EndRule
    mask_id: int
    stop_ids: tuple[int, ...]
    never: tuple[int, ...] = ()
    top_k: int = 0
    top_p: float = 1.0
    confidence: ConfidenceRule = "temperature_one"


@dataclass(frozen=True)
class Candidates:
    """One candidate for each of S masked slots.

    Args:
        token_S: int64, never the mask token.
        logprob_S: float32, nats, under the law it was drawn from (temperature 1 if greedy).
        entropy_S: float32, nats, of the softmax at temperature 1.
        confidence_S: float32, probability of the token, as `Law.confidence` says; 0 for a stop
            token under `confidence_inf`.
        certainty_S: float32, what slots are ordered by.
    """

    token_S: Tensor
    logprob_S: Tensor
    entropy_S: Tensor
    confidence_S: Tensor
    certainty_S: Tensor

    def part(self, keep_S: Tensor) -> Candidates:
        """The candidates of the slots where `keep_S` (bool)."""
        return Candidates(*(value_S[keep_S] for value_S in self))

    def __iter__(self) -> Iterator[Tensor]:
        """Field after field."""
        return (getattr(self, each.name) for each in fields(self))


def draw(logits_SV: Tensor, law: Law, certainty: Certainty, noise: Noise, at: Slots) -> Candidates:
    """A candidate for each slot, in chunks that bound the memory of float32 vocabularies.

    Args:
        logits_SV: of any precision.
        law: how to draw.
        certainty: what to order slots by.
        noise: the random numbers.
        at: the S slots.
    """
    S, V = logits_SV.shape
    size = max(1, ELEMENTS.get(logits_SV.device.type, ELEMENTS_ELSEWHERE) // V)
    chunks = []
    for start in range(0, S, size) or (0,):
        stop = min(start + size, S)
        part_SV = logits_SV[start:stop].float()
        chunks.append(_draw(part_SV, law, certainty, noise, at.part(start, stop)))
    if len(chunks) == 1:
        return Candidates(*chunks[0])
    return Candidates(*(torch.cat(column) for column in zip(*chunks, strict=True)))


def _draw(
    logits_SV: Tensor, law: Law, certainty: Certainty, noise: Noise, at: Slots
) -> tuple[Tensor, ...]:
    if law.end_rule == "logits_inf":
        logits_SV = without(logits_SV, law.stop_ids[:1])
    prob_SV = logits_SV.softmax(-1)
    entropy_S = torch.special.entr(prob_SV).sum(-1)

    allowed_SV = without(logits_SV, (law.mask_id, *law.never))
    drawn_SV = tempered(allowed_SV, law.temperature or 1.0)
    if law.temperature > 0:
        if law.top_k > 0 or law.top_p < 1:
            kept_SV = likeliest(drawn_SV, law.top_k, law.top_p)
            allowed_SV = allowed_SV.masked_fill(~kept_SV, -torch.inf)
            drawn_SV = drawn_SV.masked_fill(~kept_SV, -torch.inf)
        token_S = noise.token(allowed_SV, law.temperature, at)
    else:
        token_S = allowed_SV.argmax(-1)
    logprob_S = at_token(drawn_SV, token_S) - drawn_SV.logsumexp(-1)

    judged_SV = _judged(logits_SV, drawn_SV, law)
    if law.end_rule == "confidence_inf":
        judged_SV = without(judged_SV, law.stop_ids)
    if judged_SV is not logits_SV:
        nothing_S1 = (judged_SV == -torch.inf).all(-1, keepdim=True)
        prob_SV = judged_SV.softmax(-1).masked_fill(nothing_S1, 0.0)
    confidence_S = at_token(prob_SV, token_S)
    return token_S, logprob_S, entropy_S, confidence_S, certainty(prob_SV, token_S, noise, at)


def _judged(logits_SV: Tensor, drawn_SV: Tensor, law: Law) -> Tensor:
    """Logits of the law whose probabilities order the slots."""
    if law.confidence == "before_filters":
        return tempered(logits_SV, law.temperature or 1.0)
    return drawn_SV if law.confidence == "after_filters" else logits_SV


def without(logits_SV: Tensor, ids: tuple[int, ...]) -> Tensor:
    index = torch.tensor(ids, device=logits_SV.device)
    return logits_SV.index_fill(-1, index, -torch.inf)


def at_token(value_SV: Tensor, token_S: Tensor) -> Tensor:
    """value_S: the entry of each slot's token."""
    return value_SV.gather(1, token_S.unsqueeze(1)).squeeze(1)
