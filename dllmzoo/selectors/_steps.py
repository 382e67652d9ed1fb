"""What selectors share: sums of slot values over steps, and tables of single steps."""

from __future__ import annotations

import torch
from torch import Tensor

from dllmzoo.records import Rollout, Steps


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


def best_steps(score_BT: Tensor, usable_BT: Tensor, num: int) -> Steps:
    """The `num` usable steps of highest score, best first; ties go to the smaller step.

    Args:
        score_BT: finite; higher = chosen earlier.
        usable_BT: bool; the other steps come last, with weight 0.
        num: K; columns beyond T are unused, empty spans.
    """
    ranked_BT = score_BT.masked_fill(~usable_BT, -torch.inf).argsort(
        dim=1, descending=True, stable=True
    )
    return single_steps(ranked_BT[:, :num], usable_BT, num)


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
