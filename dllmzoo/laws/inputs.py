"""Random rollouts, rewards, estimates and units, as the laws and the tests use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws.case import Case
from dllmzoo.protocols import Unit
from dllmzoo.records import (
    ABSTAIN,
    VALUE,
    Estimate,
    Prompts,
    Rewards,
    Rollout,
    Steps,
    Units,
)

VOCABULARY = 7
END_ID, MASK_ID = 5, 6
"""The ids of the toy vocabulary: 0 to 4 are words."""


@dataclass(frozen=True)
class Played:
    """Stands for the sampler of a rollout that no sampler made."""

    temperature: float = 1.0
    answer_length: int = 0
    block_length: int = 0
    steps: int = 0


def prompts(case: Case, *, width: int = 5, samples: int | None = None) -> Prompts:
    """Ragged, left-padded prompts, each repeated G times."""
    P = case.integer("prompts", 1, 3)
    G = case.integer("samples", 2, 4) if samples is None else samples
    Lp = case.integer("prompt length", 1, width)
    words_PL = case.integers("prompt words", 0, 4, P, Lp)
    length_P = case.integers("prompt lengths", 1, Lp, P)
    length_P[0] = Lp
    attend_PL = torch.arange(Lp).unsqueeze(0) >= Lp - length_P.unsqueeze(1)
    tokens_BL = words_PL.masked_fill(~attend_PL, END_ID).repeat_interleave(G, 0)
    group_B = torch.arange(P).repeat_interleave(G)
    return Prompts(
        tokens_BL, attend_PL.repeat_interleave(G, 0), group_B, torch.arange(P * G),
        [{"prompt": int(p)} for p in group_B],
    )  # fmt: skip


def played(
    tokens_BN: Tensor, reveal_BN: Tensor, *, start: Prompts | None = None, group_size: int = 1,
    num_steps: int | None = None, entropy_BN: Tensor | None = None,
    block_entropy_BT: Tensor | None = None, temperature: float = 1.0,
) -> Rollout:  # fmt: skip
    """The rollout in which each slot of the answers was committed at the given step.

    Args:
        tokens_BN: the answers.
        reveal_BN: step of each slot; -1 = never committed.
        start: the prompts; None = one word of prompt each.
        group_size: G, where `start` is None.
        num_steps: T; None = up to the last step that commits a slot.
        entropy_BN: nats; None = ln 2 everywhere.
        block_entropy_BT: nats; None = the mean entropy of what each step commits.
        temperature: of the sampler.
    """
    B, N = tokens_BN.shape
    if start is None:
        word_BL = torch.zeros(B, 1, dtype=torch.long)
        group_B = torch.arange(B) // group_size
        start = Prompts(word_BL, word_BL == 0, group_B, torch.arange(B), [{}] * B)
    T = int(reveal_BN.max()) + 1 if num_steps is None else num_steps
    committed_BN = reveal_BN >= 0
    if entropy_BN is None:
        entropy_BN = torch.full((B, N), 0.6931472)
    entropy_BN = entropy_BN.float() * committed_BN
    if block_entropy_BT is None:
        at_BN = reveal_BN.clamp(min=0)
        sum_BT = torch.zeros(B, T).scatter_add(1, at_BN, entropy_BN)
        count_BT = torch.zeros(B, T).scatter_add(1, at_BN, committed_BN.float())
        block_entropy_BT = sum_BT / count_BT.clamp(min=1)
    end_BN = (tokens_BN == END_ID).long()
    valid_BN = end_BN.cumsum(1) - end_BN == 0

    def after_prompt(value_BN: Tensor, fill: float) -> Tensor:
        filler_BL = torch.full(start.tokens_BL.shape, fill).to(value_BN.dtype)
        return torch.cat([filler_BL, value_BN], 1)

    committed = committed_BN.float()
    return Rollout(
        tokens_BL=torch.cat([start.tokens_BL, tokens_BN], 1),
        attend_BL=torch.cat([start.attend_BL, torch.ones_like(committed_BN)], 1),
        answer_BL=after_prompt(torch.ones_like(committed_BN), 0),
        valid_BL=after_prompt(valid_BN, 0),
        reveal_BL=after_prompt(reveal_BN, -1),
        logprob_BL=after_prompt(-entropy_BN, 0),
        entropy_BL=after_prompt(entropy_BN, 0),
        confidence_BL=after_prompt(0.5 * committed, 0),
        block_entropy_BT=block_entropy_BT,
        group_B=start.group_B,
        sample_B=start.sample_B,
        examples=start.examples,
        num_steps=T,
        sampler=Played(temperature, N, N, T),
        forwards=B * T,
    )


def rollout(case: Case, *, min_steps: int = 1, complete: bool = True) -> Rollout:
    """A random rollout: ragged prompts, steps that commit nothing, early ends, tied entropies.

    Args:
        case: where the numbers come from.
        min_steps: T is at least this.
        complete: False may leave slots of the tail uncommitted, as a sampler that stops early.
    """
    start = prompts(case)
    B = len(start.tokens_BL)
    N = case.integer("answer length", 1, 8)
    T = max(min_steps, case.integer("steps", 1, 8))
    tokens_BN = case.integers("answers", 0, END_ID, B, N)
    reveal_BN = case.integers("reveal", 0, T - 1, B, N)
    if not complete:
        kept_B1 = case.integers("kept", 1, N, B, 1)
        reveal_BN = reveal_BN.masked_fill(torch.arange(N) >= kept_B1, -1)
    entropy_BN = case.uniform("entropy", B, N, high=2.0)
    if case.truth("ties"):
        entropy_BN = (2 * entropy_BN).round() / 2
    ran_BT = torch.zeros(B, T, dtype=torch.bool)
    ran_BT = ran_BT.scatter(1, reveal_BN.clamp(min=0), reveal_BN >= 0)
    block_BT = case.uniform("block entropy", B, T, high=2.0) * ran_BT
    return played(
        tokens_BN, reveal_BN, start=start, num_steps=T, entropy_BN=entropy_BN,
        block_entropy_BT=block_BT, temperature=case.among("temperature", (1.0, 0.5, 1.5)),
    )  # fmt: skip


def every_step(source: Rollout) -> Steps:
    """All T steps of each row in order; weight 0 where a step committed nothing."""
    B, T = len(source.tokens_BL), source.num_steps
    start_BK = torch.arange(T).expand(B, T)
    used_BK = (source.reveal_BL.unsqueeze(1) == start_BK.unsqueeze(2)).any(2)
    return Steps(start_BK, start_BK + 1, used_BK.float())


def padded(source: Rollout, columns: int) -> Rollout:
    """The same rollout with more padding on the left."""
    wide: dict[str, Any] = {}
    for name in ("tokens", "attend", "answer", "valid", "reveal", "logprob", "entropy"):
        value_BL = getattr(source, f"{name}_BL")
        fill = {"reveal": -1, "tokens": END_ID}.get(name, 0)
        extra = torch.full((len(value_BL), columns), fill).to(value_BL.dtype)
        wide[f"{name}_BL"] = torch.cat([extra, value_BL], 1)
    zero = source.confidence_BL.new_zeros(len(source.tokens_BL), columns)
    wide["confidence_BL"] = torch.cat([zero, source.confidence_BL], 1)
    return replace(source, **wide)


def rewards(total_X: Tensor, counted_X: Tensor | None = None) -> Rewards:
    """Rewards of one component; 0 and abstained where not counted."""
    counted_X = torch.ones(len(total_X), dtype=torch.bool) if counted_X is None else counted_X
    total_X = torch.where(counted_X, total_X, 0)
    outcome_X = torch.where(counted_X, VALUE, ABSTAIN).to(torch.int8)
    return Rewards(
        total_X, total_X.unsqueeze(1), ("reward",), counted_X, outcome_X.unsqueeze(1)
    )  # fmt: skip


def estimate(value_BU: Tensor, exact_kl_BU: Tensor | None = None) -> Estimate:
    """An estimate whose score and ratio are one tensor, as of a linear pool."""
    return Estimate(value_BU, value_BU, exact_kl_BU)


def units(
    rows: int, count: int = 1, *, group_size: int | None = None, size_BU: Tensor | None = None,
    weight_BU: Tensor | None = None, live_BU: Tensor | None = None, canvas: int | None = None,
    row_BU: Tensor | None = None, advantage_BU: Tensor | None = None,
    length_B: Tensor | None = None,
) -> Units:  # fmt: skip
    """Facts of `rows` sequences of `count` units each, with the totals of these rows alone.

    Args:
        rows: B.
        count: U.
        group_size: G; None = one group.
        size_BU: tokens of each unit; None = 1 each.
        weight_BU: of each term; None = 1 each.
        live_BU: units that count; None = those of positive weight.
        canvas: N; None = the longest answer.
        row_BU: view that scored each unit; None = the unit's own.
        advantage_BU: says which sequences are `nonzero`; None = those with a live unit.
        length_B: valid tokens; None = the sizes summed.
    """
    size_BU = torch.ones(rows, count) if size_BU is None else size_BU
    weight_BU = torch.ones(rows, count) if weight_BU is None else weight_BU
    live_BU = weight_BU > 0 if live_BU is None else live_BU
    row_BU = torch.arange(count).expand(rows, count) if row_BU is None else row_BU
    length_B = size_BU.sum(1).long().clamp(min=1) if length_B is None else length_B
    group_B = torch.arange(rows) // (group_size or max(rows, 1))
    moved_B = (live_BU if advantage_BU is None else advantage_BU != 0).any(1)
    views = [row_BU[b][live_BU[b]].unique().numel() for b in range(rows)]
    totals = {
        "tokens": float(length_B.sum()),
        "scored": float((size_BU * live_BU).sum()),
        "sequences": float(rows),
        "nonzero": float(moved_B.sum()),
        "rows": float(sum(views)),
        "units": float(live_BU.sum()),
        "groups": float(group_B.unique().numel()),
    }
    N = int(length_B.max()) if canvas is None else canvas
    return Units(live_BU, size_BU, weight_BU, row_BU, group_B, length_B, N, totals)


def units_of_kind(case: Case, kind: Unit, *, group_size: int | None = None) -> Units:
    """Random facts of units of one kind: their number, sizes, weights and unused entries."""
    G = case.integer("group size", 2, 6) if group_size is None else group_size
    B = G * case.integer("groups", 1, 3)
    U = 1 if kind == "sequence" else case.integer("units", 1, 4)
    size_BU = torch.ones(B, U) if kind == "slot" else case.integers("sizes", 1, 6, B, U).float()
    live_BU = torch.ones(B, U, dtype=torch.bool)
    weight_BU = torch.ones(B, U)
    if kind != "sequence":
        live_BU = case.uniform("live", B, U) < 0.8
        live_BU[:, 0] = True
    if kind == "step":
        size_BU = size_BU * live_BU
        weight_BU = live_BU.float() * case.among("weight", (1.0, 1.0, 2.0))
    if kind == "view":
        size_BU, live_BU = size_BU[:, :1].expand(B, U).clone(), torch.ones_like(live_BU)
    return units(B, U, group_size=G, size_BU=size_BU, weight_BU=weight_BU, live_BU=live_BU)


def take_units(facts: Units, rows: Tensor) -> Units:
    """The given rows, with the totals of the whole step."""
    per_row = ("live_BU", "size_BU", "weight_BU", "row_BU", "group_B", "length_B")
    return replace(facts, **{name: getattr(facts, name)[rows] for name in per_row})


def rows_of_groups(group_B: Tensor, groups: Sequence[int]) -> Tensor:
    """Indices of the rows of the given groups, group after group."""
    return torch.cat([(group_B == g).nonzero()[:, 0] for g in groups])
