"""What selectors share: values of whole steps, ranked steps, and tables of steps and spans."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from dllmzoo.records import Rollout, Steps

Over = Literal["committed_mean", "committed_sum", "block_mean"]
"""What a step's entropy is taken over: the slots it committed, or all masked ones of the block."""


def total_over_steps(value_BL: Tensor, rollout: Rollout) -> tuple[Tensor, Tensor]:
    """Sum of a slot value over the slots that each step committed, and how many there are.

    Args:
        value_BL: any float or bool tensor; read where `rollout.reveal_BL >= 0` only.
        rollout: whose steps.

    Returns:
        total_BT, float64, 0 where a step committed nothing, and count_BT, int64.
    """
    committed_BL = rollout.reveal_BL >= 0
    step_BL = rollout.reveal_BL.clamp(min=0)
    value_BL = torch.where(committed_BL, value_BL, 0).double()
    shape = (len(step_BL), rollout.num_steps)
    total_BT = value_BL.new_zeros(shape).scatter_add(1, step_BL, value_BL)
    count_BT = step_BL.new_zeros(shape).scatter_add(1, step_BL, committed_BL.long())
    return total_BT, count_BT


def mean_over_steps(value_BL: Tensor, rollout: Rollout) -> tuple[Tensor, Tensor]:
    """Mean of a slot value over the slots that each step committed, and how many there are.

    Returns:
        mean_BT, float32, 0 where a step committed nothing, and count_BT, int64.
    """
    total_BT, count_BT = total_over_steps(value_BL, rollout)
    return (total_BT / count_BT.clamp(min=1)).float(), count_BT


def step_entropies(rollout: Rollout, over: Over) -> tuple[Tensor, Tensor]:
    """Entropy of each step in nats, float32 (B, T), and how many slots it committed, int64."""
    mean_BT, count_BT = mean_over_steps(rollout.entropy_BL, rollout)
    if over == "committed_sum":
        return total_over_steps(rollout.entropy_BL, rollout)[0].float(), count_BT
    return (rollout.block_entropy_BT if over == "block_mean" else mean_BT), count_BT


def busy_steps(rollout: Rollout) -> Tensor:
    """Bool (B, T): the steps that did something.

    They committed tokens; where a sampler masks tokens again, they changed what is masked.
    """
    if rollout.hidden_BTN is None:
        return total_over_steps(rollout.answer_BL, rollout)[1] > 0
    B, T = len(rollout.tokens_BL), rollout.num_steps
    every_BK = torch.arange(T + 1, device=rollout.tokens_BL.device).expand(B, T + 1)
    hidden_BKL = rollout.hidden_before(every_BK)
    return (hidden_BKL[:, 1:] != hidden_BKL[:, :-1]).any(2)


def ranked_steps(score_BT: Tensor, usable_BT: Tensor) -> Tensor:
    """All steps by score, highest first, int64 (B, T); ties by time, unusable steps last."""
    return score_BT.masked_fill(~usable_BT, -torch.inf).argsort(dim=1, descending=True, stable=True)


def best_steps(score_BT: Tensor, usable_BT: Tensor, num: int) -> Steps:
    """The `num` usable steps of highest score, best first; ties go to the smaller step.

    Args:
        score_BT: finite; higher = chosen earlier.
        usable_BT: bool; the other steps come last, with weight 0.
        num: K; columns beyond T are unused, empty spans.
    """
    return single_steps(ranked_steps(score_BT, usable_BT)[:, :num], usable_BT, num)


def single_steps(chosen_BK: Tensor, usable_BT: Tensor, num: int) -> Steps:
    """Spans of one step each, weight 1 where the step is usable; padded to `num` columns.

    Args:
        chosen_BK: int64 in [0, T), at most `num` columns.
        usable_BT: bool, what counts; usually the steps that committed something.
        num: columns of the result; missing ones are empty spans [T, T) of weight 0.
    """
    T, missing = usable_BT.shape[1], num - chosen_BK.shape[1]
    weight_BK = usable_BT.gather(1, chosen_BK).float()
    pad = torch.nn.functional.pad
    return Steps(
        start_BK=pad(chosen_BK, (0, missing), value=T),
        stop_BK=pad(chosen_BK + 1, (0, missing), value=T),
        weight_BK=pad(weight_BK, (0, missing), value=0.0),
    )


def every_step(usable_BT: Tensor) -> Steps:
    """All T steps in the order of time, weight 1 where usable."""
    B, T = usable_BT.shape
    return single_steps(torch.arange(T, device=usable_BT.device).expand(B, T), usable_BT, T)


def spans(column_BT: Tensor, num: int, rollout: Rollout) -> Steps:
    """The span from the first to the last step of each column, weight 1 where it committed.

    Args:
        column_BT: int64 in [0, num], rising with time; `num` = the step belongs to no span.
        num: K; a column without steps is the empty span [T, T).
        rollout: whose steps.
    """
    B, T = column_BT.shape
    step_BT = torch.arange(T, device=column_BT.device).expand(B, T)
    empty_BK = step_BT.new_full((B, num + 1), T)
    start_BK = empty_BK.scatter_reduce(1, column_BT, step_BT, "amin")
    stop_BK = empty_BK.scatter_reduce(1, column_BT, step_BT + 1, "amax", include_self=False)
    _, count_BT = total_over_steps(rollout.answer_BL, rollout)
    committed_BK = torch.zeros_like(empty_BK).scatter_add(1, column_BT, count_BT)
    return Steps(start_BK[:, :num], stop_BK[:, :num], (committed_BK[:, :num] > 0).float())
