"""Random rollouts with more than a plain one: stored states, shared steps, given slots, blocks."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.laws.inputs import END_ID
from dllmzoo.records import Rollout, Steps

WORDS = END_ID - 1
"""The largest id that is a word."""


def varied(
    case: Case, *, complete: bool = True, drafts: bool = False, in_order: bool = False
) -> Rollout:
    """A plain rollout, or one with stored states, with shared steps or with given slots.

    Some come from a network with blocks, which their steps need not follow.

    Args:
        case: where the numbers come from.
        complete: False may leave slots of the tail uncommitted.
        drafts: states and drafts are stored, whatever else the rollout holds.
        in_order: the network has blocks, and each was finished before the next was begun.
    """
    source = inputs.rollout(case, complete=complete)
    if in_order:
        source = by_blocks(source, some_block_size(case))
    elif case.truth("blocks"):
        source = replace(source, block_size=some_block_size(case))
    kind = case.among("kind of rollout", ("plain", "stored", "shared", "given"))
    if kind == "given":
        source = with_given_slots(source, case)
    if kind == "shared":
        source = with_shared_steps(source, case)
        source = by_blocks(source, source.block_size) if in_order else source
    if drafts or kind == "stored":
        return with_stored_states(source, case, remask=kind != "shared" and not in_order)
    return source


def some_block_size(case: Case) -> int:
    """Tokens of a block, 1 to 4."""
    return case.integer("block size", 1, 4)


def by_blocks(source: Rollout, block_size: int | None) -> Rollout:
    """The same rollout written block after block, as a sampler of block models does.

    Steps are counted from 0 without gaps in each row, each commits slots of one block, and their
    number is that of the answer's slots.
    """
    source = replace(source, block_size=block_size)
    N, T = source.sampler.answer_length, source.num_steps
    step_BL, block_BL = source.reveal_BL, source.block_BL
    order_BL = torch.where(step_BL >= 0, block_BL * T + step_BL, -1)
    reveal_BL = torch.full_like(step_BL, -1)
    for b, order_L in enumerate(order_BL):
        committed_L = order_L >= 0
        reveal_BL[b, committed_L] = order_L[committed_L].unique(return_inverse=True)[1]
    at_BL, committed_BL = reveal_BL.clamp(min=0), reveal_BL >= 0
    zero_BT = torch.zeros(len(step_BL), N)
    total_BT = zero_BT.scatter_add(1, at_BL, source.entropy_BL * committed_BL)
    count_BT = zero_BT.scatter_add(1, at_BL, committed_BL.float())
    return replace(
        source, reveal_BL=reveal_BL, num_steps=N, block_entropy_BT=total_BT / count_BT.clamp(min=1)
    )


def with_stored_states(
    source: Rollout, case: Case, *, remask: bool = True, words: int = WORDS
) -> Rollout:
    """The same rollout with the state and the draft before each step.

    Args:
        source: what was committed when, for the last time.
        case: where the numbers come from.
        remask: slots may have been filled before, with other words, and masked again.
        words: largest id of a word.
    """
    N, T = source.sampler.answer_length, source.num_steps
    final_BN, reveal_BN = source.tokens_BL[:, -N:], source.reveal_BL[:, -N:]
    answer_BN = source.answer_BL[:, -N:]
    B = len(final_BN)
    step = torch.arange(T).view(1, T, 1)
    last_BTN = reveal_BN.masked_fill(reveal_BN < 0, T).unsqueeze(1)
    hidden_BTN = (step <= last_BTN) & answer_BN.unsqueeze(1)
    if remask:
        filled_BTN = case.uniform("filled before", B, T, N) < 0.3
        hidden_BTN = hidden_BTN & ~(filled_BTN & (step > 0) & (step < last_BTN))
    draft_BTN = case.integers("drafts", 0, words, B, T, N)
    kept_BTN = (step >= last_BTN) | ~answer_BN.unsqueeze(1)
    return replace(
        source,
        hidden_BTN=hidden_BTN,
        draft_BTN=torch.where(kept_BTN, final_BN.unsqueeze(1), draft_BTN),
    )


def with_shared_steps(source: Rollout, case: Case) -> Rollout:
    """Each prompt's samples share their first steps, as many as a draw says; a tree."""
    group_B, T = source.group_B, source.num_steps
    shared_P = case.integers("shared steps", 0, T - 1, int(group_B.max()) + 1)
    first_B = (group_B.unsqueeze(0) == group_B.unsqueeze(1)).long().argmax(1)
    until_B1 = shared_P[group_B].unsqueeze(1)
    reveal_BL, root_BL = source.reveal_BL, source.reveal_BL[first_B]
    copied_BL = (root_BL >= 0) & (root_BL < until_B1)
    later_BL = torch.where(reveal_BL < 0, -1, torch.maximum(reveal_BL, until_B1))
    branch_B1, root_B1 = source.sample_B.unsqueeze(1), source.sample_B[first_B].unsqueeze(1)
    return _ended(
        replace(
            source,
            tokens_BL=torch.where(copied_BL, source.tokens_BL[first_B], source.tokens_BL),
            reveal_BL=torch.where(copied_BL, root_BL, later_BL),
            branch_BT=torch.where(torch.arange(T) < until_B1, root_B1, branch_B1),
        )
    )


def with_given_slots(source: Rollout, case: Case) -> Rollout:
    """Some slots of each answer stood there from the start, in some rows perhaps all of them."""
    B, N = len(source.tokens_BL), source.sampler.answer_length
    share = case.among("given share", (0.2, 0.5, 0.8))
    given_BN = case.uniform("given", B, N) < share
    given_BL = torch.zeros_like(source.answer_BL)
    given_BL[:, -N:] = given_BN
    word_BL = torch.zeros_like(source.tokens_BL)
    word_BL[:, -N:] = case.integers("given words", 0, WORDS, B, N)
    cleared = {
        name: getattr(source, name).masked_fill(given_BL, 0)
        for name in ("logprob_BL", "entropy_BL", "confidence_BL")
    }
    return _ended(
        replace(
            source,
            tokens_BL=torch.where(given_BL, word_BL, source.tokens_BL),
            answer_BL=source.answer_BL & ~given_BL,
            reveal_BL=source.reveal_BL.masked_fill(given_BL, -1),
            **cleared,
        )
    )


def spans(source: Rollout, case: Case) -> Steps:
    """All steps of each row, cut into spans at random places, in random order."""
    B, T = len(source.tokens_BL), source.num_steps
    cuts = [s for s in range(1, T) if case.truth(f"cut {s}")]
    order = case.order("spans", len(cuts) + 1)
    start_K, stop_K = torch.tensor([0, *cuts])[order], torch.tensor([*cuts, T])[order]
    reveal_BL = source.reveal_BL.unsqueeze(1)
    used_BK = ((reveal_BL >= start_K.unsqueeze(1)) & (reveal_BL < stop_K.unsqueeze(1))).any(2)
    return Steps(
        start_K.expand(B, -1).contiguous(), stop_K.expand(B, -1).contiguous(), used_BK.float()
    )


def _ended(source: Rollout) -> Rollout:
    """The rollout with valid slots up to the first end token of its answer."""
    canvas_L: Tensor = torch.arange(source.tokens_BL.shape[1])
    canvas_L = canvas_L >= len(canvas_L) - source.sampler.answer_length
    end_BL = ((source.tokens_BL == END_ID) & canvas_L).long()
    return replace(source, valid_BL=source.answer_BL & (end_BL.cumsum(1) - end_BL == 0))
