"""The records that the parts of a round hand to each other.

Shape letters, for the whole package:

    P prompts   G samples per prompt   B = P*G sequences, ordered (p g)   T denoising steps
    K views, or chosen steps   U credit units   A advantage columns (1 or K)   X scored texts
    C reward components   S scored slots, flat   R rows of one forward   L tokens of prompt + answer
    N answer tokens   V vocabulary   D width   H heads   E head width   M blocks of a row
    a digit is a literal size

`steps` always means denoising steps; optimiser updates are `updates`, outer iterations `rounds`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from dllmzoo.units import Normaliser as Normaliser
from dllmzoo.units import Units as Units

Example = Mapping[str, Any]
R = TypeVar("R")

VALUE, ABSTAIN, ERROR, TIMEOUT = range(4)
"""Outcomes of one reward component on one text."""


@dataclass(frozen=True)
class Key:
    """The only source of randomness; rank, batch and row order never enter.

    Args:
        seed: of the recipe.
        round: outer iteration, from 0.
        purpose: `prompts`, `sample`, `select`, `views`, `old_views`, `guesses`, `minibatch`, ...
        pass_: sweep over the round's samples, from 0.
    """

    seed: int
    round: int
    purpose: str
    pass_: int = 0

    def generator(self, sample: int = -1) -> torch.Generator:
        """A fresh CPU generator of one sample, or (-1) of what the whole round shares."""
        text = repr((self.seed, self.round, self.purpose, self.pass_, sample))
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)

    def uniform(self, sample_B: Tensor, *shape: int) -> Tensor:
        """Float32 (B, *shape) in [0, 1), on the CPU; row i depends on `sample_B[i]` alone."""
        rows = [torch.rand(shape, generator=self.generator(int(i))) for i in sample_B.tolist()]
        return torch.stack(rows) if rows else torch.zeros(0, *shape)

    def sub(self, tag: str) -> Key:
        """A key of its own for a second kind of number needed under the same purpose."""
        return replace(self, purpose=f"{self.purpose}/{tag}")


@dataclass(frozen=True)
class Prompts:
    """Prompts as token rows, each already repeated G times; left-padded.

    Args:
        tokens_BL: int64, prompt tokens; anything under padding.
        attend_BL: bool, True = real token; the only source of truth about padding.
        group_B: int64, which prompt of the round a row belongs to.
        sample_B: int64, index of the row in the round before sharding.
        examples: the task's example of each row (B of them).
        answer_BN: int64, answers that are given with the prompts, to be stored or filled in: the
            mask token where a slot is blank. None where answers start from nothing.
    """

    tokens_BL: Tensor
    attend_BL: Tensor
    group_B: Tensor
    sample_B: Tensor
    examples: Sequence[Example]
    answer_BN: Tensor | None = None


@dataclass(frozen=True)
class Rollout:
    """Answers and the record of how they were denoised.

    Where nothing re-masks, `tokens_BL` and `reveal_BL` describe every state. A sampler that
    re-masks, or whose proposals are rewarded, stores them too.

    Args:
        tokens_BL: int64, prompt + final answer.
        attend_BL: bool, True = real position.
        answer_BL: bool, slots that the sampler had to fill (N per row, fewer where some of the
            last N columns were given in the prompt).
        valid_BL: bool, answer slots up to and including the first end token.
        reveal_BL: int64, step at which the slot was committed, for good where slots are masked
            again; -1 elsewhere (prompt, padding, slots never committed, answers that no sampler
            made).
        logprob_BL: float32, nats, log-prob of the token under the law it was drawn from; 0 where
            reveal < 0.
        entropy_BL: float32, nats, of the temperature-1 softmax at the slot when committed.
        confidence_BL: float32 in [0, 1], probability by which the slot was chosen; of temperature
            1, unless the sampler says otherwise.
        block_entropy_BT: float32, nats, mean entropy over the slots still masked in the active
            block before step s; depends on the state only; 0 where the row ran no forward.
        group_B: int64, prompt of each row.
        sample_B: int64, index of each row in the round.
        examples: the task's example of each row.
        num_steps: T.
        sampler: the sampler object: its temperature and all settings.
        forwards: model rows that the sampler ran, counted over all B rows.
        draft_BTN: int64, the last N columns before step s with a proposal in every masked slot;
            None where the sampler stored none. Steps that did not run keep the last proposals.
        hidden_BTN: bool, which of the last N columns were masked before step s; with `draft_BTN`.
        branch_BT: int64, rows of equal number at step s share that step of one trajectory, and
            all before it; None where every row is a trajectory of its own.
        block_size: tokens of a block of the network's attention, counted from the first real token
            of each row; None = every token attends to all.
        reads: (rows, queries, keys, logits) of each of the forwards, where not all of them read
            whole rows: `queries` columns went in and met `keys` columns, those of a cache included.
            Empty = whole rows. Like `forwards` of all rows of a call, also behind `take`.
    """

    tokens_BL: Tensor
    attend_BL: Tensor
    answer_BL: Tensor
    valid_BL: Tensor
    reveal_BL: Tensor
    logprob_BL: Tensor
    entropy_BL: Tensor
    confidence_BL: Tensor
    block_entropy_BT: Tensor
    group_B: Tensor
    sample_B: Tensor
    examples: Sequence[Example]
    num_steps: int
    sampler: Any
    forwards: int = 0
    draft_BTN: Tensor | None = None
    hidden_BTN: Tensor | None = None
    branch_BT: Tensor | None = None
    block_size: int | None = None
    reads: tuple[tuple[int, int, int, int], ...] = ()

    @property
    def length_B(self) -> Tensor:
        """Valid answer tokens n_i of each row, int64."""
        return self.valid_BL.sum(1)

    @property
    def canvas(self) -> int:
        """N: the answer stands in the last N columns, with slots that were given in the prompt."""
        length = int(getattr(self.sampler, "answer_length", 0))
        return length or int(self.answer_BL.sum(1).max())

    @property
    def block_BL(self) -> Tensor:
        """Number of each column's block in the network's attention, int64; -1 under padding.

        Raises:
            ValueError: the network has no blocks.
        """
        if self.block_size is None:
            raise ValueError("the network that made this rollout attends to everything: no blocks")
        place_BL = self.attend_BL.long().cumsum(1) - 1
        return torch.where(self.attend_BL, place_BL // self.block_size, -1)

    @property
    def temperature(self) -> float:
        """Temperature of log-probs that match the sampler's law: 1 for a greedy sampler."""
        return getattr(self.sampler, "temperature", 0.0) or 1.0

    def slot_uniform(self, key: Key, *shape: int) -> Tensor:
        """Numbers in [0, 1) for each slot, (B, *shape, L); padding does not move a row's numbers.

        The p-th real token of a row gets the p-th numbers of the row's stream.
        """
        drawn = key.uniform(self.sample_B, self.tokens_BL.shape[1], *shape)
        place_BL = (self.attend_BL.long().cumsum(1) - 1).clamp(min=0)
        row_B1 = torch.arange(len(place_BL), device=place_BL.device).unsqueeze(1)
        return drawn.to(place_BL.device)[row_B1, place_BL].movedim(1, -1)

    def hidden_before(self, step_BK: Tensor) -> Tensor:
        """hide_BKL: the answer slots that were masked before each of the steps; T means the end."""
        if self.hidden_BTN is not None:
            return (
                self._stored(self.hidden_BTN, step_BK, self.reveal_BL < 0) & self.answer_BL[:, None]
            )
        later_BKL = self.reveal_BL.unsqueeze(1) >= step_BK.unsqueeze(2)
        never_BL = self.reveal_BL < 0
        return (later_BKL | never_BL.unsqueeze(1)) & self.answer_BL.unsqueeze(1)

    def draft_before(self, step_BK: Tensor) -> Tensor | None:
        """draft_BKL: the canvas with every masked slot proposed; None where none is stored."""
        if self.draft_BTN is None:
            return None
        return self._stored(self.draft_BTN, step_BK, self.tokens_BL)

    def _stored(self, value_BTN: Tensor, step_BK: Tensor, end_BL: Tensor) -> Tensor:
        """A stored table before each of the steps, (B, K, L), with `end_BL` elsewhere."""
        N = value_BTN.shape[2]
        end_BKL = end_BL.unsqueeze(1).expand(-1, step_BK.shape[1], -1).clone()
        last_BTN = torch.cat([value_BTN, end_BL[:, None, -N:].to(value_BTN.dtype)], 1)
        end_BKL[..., -N:] = last_BTN.gather(1, step_BK.unsqueeze(2).expand(-1, -1, N))
        return end_BKL


@dataclass(frozen=True)
class Steps:
    """Chosen denoising steps, as spans [start, stop) that may hold several (merging, segments).

    Column k is the selector's k-th choice (rank, not time): start_BK and stop_BK int64 in [0, T],
    weight_BK float32 >= 0, where 0 marks an unused entry.
    """

    start_BK: Tensor
    stop_BK: Tensor
    weight_BK: Tensor


@dataclass(frozen=True)
class Views:
    """K partly masked views of each sequence: what is hidden, what is scored, for which unit.

    Args:
        hide_BKL: bool, replaced by the mask token in the input.
        score_BKL: bool, contributes a log-prob; a view that scores nothing costs no forward.
        weight_BKL: float, multiplies a slot's log-prob inside its unit; float64 where rounding of
            weights would show, cast to the log-probs' dtype when pooled.
        unit_BKL: int64, unit fed by the slot; meaningful where `score_BKL`.
        size_BU: float32, tokens the unit stands for (1, c_s, n_i or N); "per token" divides by it.
        weight_BU: float32, importance weight of the unit's TERM in the loss.
        column_BU: int64, advantage column that judges the unit (0 when A = 1).
        temperature: > 0, of the log-softmax.
        layout: `full`, one stream; `dual_stream`, clean context and noised target.
        context: attention of the clean stream in `dual_stream`.
        shown_BKL: int64, what stands in the slots that are not hidden; None = the final tokens.
        target_BKL: int64, the tokens whose log-probs are taken; None = the final tokens.
        parent_BU: int64, units of equal number start from one state shared by several rows;
            None where no state is shared.
    """

    hide_BKL: Tensor
    score_BKL: Tensor
    weight_BKL: Tensor
    unit_BKL: Tensor
    size_BU: Tensor
    weight_BU: Tensor
    column_BU: Tensor
    temperature: float = 1.0
    layout: Literal["full", "dual_stream"] = "full"
    context: Literal["block_causal", "token_causal"] = "block_causal"
    shown_BKL: Tensor | None = None
    target_BKL: Tensor | None = None
    parent_BU: Tensor | None = None

    @property
    def live_BU(self) -> Tensor:
        """Bool: units that some slot feeds and whose term counts."""
        return (self.total(torch.ones_like(self.weight_BKL)) > 0) & (self.weight_BU > 0)

    def total(self, value_BKL: Tensor) -> Tensor:
        """Sum of `value_BKL` over the scored slots of each unit, (B, U); differentiable."""
        scored = torch.where(self.score_BKL, value_BKL, 0)
        unit = torch.where(self.score_BKL, self.unit_BKL, 0).flatten(1)
        empty_BU = scored.new_zeros(self.size_BU.shape)
        return empty_BU.scatter_add(1, unit, scored.flatten(1))

    def credit(self, advantage_BA: Tensor) -> Tensor:
        """advantage_BU: one column judges every unit, else each unit is judged by its column."""
        if advantage_BA.shape[1] == 1:
            return advantage_BA.expand(-1, self.size_BU.shape[1])
        return advantage_BA.gather(1, self.column_BU)


@dataclass(frozen=True)
class Estimate:
    """Log-probs of units in TOTAL nats, whatever the likelihood.

    Args:
        score_BU: float32; the gradient flows through it.
        ratio_BU: float32; importance weights and KL read it; for linear pools the same tensor.
        exact_kl_BU: float32 nats, full-vocabulary KL summed over the unit's slots; only when the
            loss asks for it.
    """

    score_BU: Tensor
    ratio_BU: Tensor
    exact_kl_BU: Tensor | None = None


@dataclass(frozen=True)
class Rewards:
    """Rewards of finals (X = B) or of one-shot guesses (X = B*K, ordered (b k)).

    Args:
        total_X: float32, weighted sum of the components; 0 where not counted.
        part_XC: float32, each component, unweighted; 0 where it has no value.
        names: the C components.
        counted_X: bool; False = abstained, out of every mean and group statistic.
        outcome_XC: int8; 0 value, 1 abstain, 2 error, 3 timeout.
    """

    total_X: Tensor
    part_XC: Tensor
    names: tuple[str, ...]
    counted_X: Tensor
    outcome_XC: Tensor


@dataclass(frozen=True)
class Experience:
    """What a round leaves, without gradient; log-probs per slot, because pooling needs advantages.

    `views`, `anchor_views`, `old` and `reference` have one entry per pass; `old` and `reference`
    hold logprob_BKL of `anchor_views`. `guess_BKL` holds the texts' tokens of `previews`: the
    canvas with every hidden slot filled, rows ordered (k n) for n guesses of a state.
    """

    rollout: Rollout
    steps: Steps | None
    rewards: Rewards
    advantage_BA: Tensor
    views: tuple[Views, ...]
    anchor_views: tuple[Views, ...]
    old: tuple[Tensor, ...]
    reference: tuple[Tensor, ...]
    guess_BKL: Tensor | None = None
    previews: Rewards | None = None


def take(record: R, rows: Tensor) -> R:
    """The given rows of a record: every per-row tensor and list of it, in that order."""
    changes: dict[str, Any] = {}
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, Tensor) and field.name.rpartition("_")[2].startswith("B"):
            changes[field.name] = value[rows.to(value.device)]
        elif field.name == "examples":
            changes[field.name] = [value[i] for i in rows.tolist()]
    return replace(record, **changes)  # type: ignore[type-var]


def join(records: Sequence[R]) -> R:
    """The rows of several records of one width after each other; the inverse of `take`."""
    first = records[0]
    changes: dict[str, Any] = {}
    for field in fields(first):  # type: ignore[arg-type]
        values = [getattr(record, field.name) for record in records]
        if isinstance(values[0], Tensor) and field.name.rpartition("_")[2].startswith("B"):
            changes[field.name] = torch.cat(values)
        elif field.name == "examples":
            changes[field.name] = [example for value in values for example in value]
        elif field.name == "forwards":
            changes[field.name] = sum(values)
        elif field.name == "reads":
            changes[field.name] = tuple(read for value in values for read in value)
    return replace(first, **changes)  # type: ignore[type-var]
