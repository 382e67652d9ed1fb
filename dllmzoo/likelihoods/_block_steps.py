"""Chosen steps of a block model in one pass for all blocks: the layout of TraceRL."""

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._blocks import block_numbers
from dllmzoo.likelihoods._states import parents
from dllmzoo.records import Rollout, Steps, Views

PART = "likelihood denoising_steps with layout dual_stream"
FULL = "layout: full"


def block_state_views(
    rollout: Rollout, steps: Steps, scored_BL: Tensor, temperature: float
) -> Views:
    """Views of the states before the chosen steps, the r-th chosen step of every block in view r.

    Units are those of one view a step: unit k is the k-th chosen step.

    Args:
        rollout: of a block model, its blocks written one after the other.
        steps: the chosen ones.
        scored_BL: slots that count.
        temperature: of the log-softmax.

    Raises:
        UsageError: the network has no blocks; a slot that counts was written before the blocks
            in front of it were finished; slots were masked again.
    """
    number_BL, most = block_numbers(rollout, PART, FULL)
    _require_order(rollout, steps, number_BL, most, scored_BL)
    size = rollout.block_size or 1
    B, K = steps.start_BK.shape
    R = min(K, size * _layers(steps))
    reveal_BL, answer_BL = rollout.reveal_BL, rollout.answer_BL
    used_BK = steps.weight_BK > 0
    in_time_BK = steps.start_BK.masked_fill(~used_BK, rollout.num_steps + 1)
    in_time_BK = in_time_BK.argsort(dim=1, stable=True)

    hide_BRL = torch.zeros(B, R, len(reveal_BL[0]), dtype=torch.bool, device=reveal_BL.device)
    score_BRL, unit_BRL = hide_BRL.clone(), torch.zeros_like(hide_BRL, dtype=torch.long)
    passed_BM = number_BL.new_zeros(B, most)  # chosen steps of each block so far
    for k in range(K):
        column_B1 = in_time_BK[:, k : k + 1]
        start_B1, stop_B1 = steps.start_BK.gather(1, column_B1), steps.stop_BK.gather(1, column_B1)
        inside_BL = (reveal_BL >= start_B1) & (reveal_BL < stop_B1) & scored_BL & answer_BL
        inside_BL = inside_BL & used_BK.gather(1, column_B1)
        busy_BM = torch.zeros_like(passed_BM).scatter_add(1, number_BL, inside_BL.long()) > 0
        row, slot = (busy_BM.gather(1, number_BL) & answer_BL).nonzero(as_tuple=True)
        view = passed_BM[row, number_BL[row, slot]]
        reveal = reveal_BL[row, slot]
        hide_BRL[row, view, slot] = (reveal >= start_B1[row, 0]) | (reveal < 0)
        score_BRL[row, view, slot] = inside_BL[row, slot]
        unit_BRL[row, view, slot] = column_B1[row, 0]
        passed_BM = passed_BM + busy_BM
    return _of_steps(rollout, steps, hide_BRL, score_BRL, unit_BRL, temperature)


def slot_starts(rollout: Rollout, start_BL: Tensor) -> Tensor:
    """Step before which a slot's state is shown: its span's first, or its block's if that is later.

    Args:
        rollout: of a block model.
        start_BL: first step of the span that scores each slot.
    """
    number_BL, most = block_numbers(rollout, PART, FULL)
    T = rollout.num_steps
    step_BL = rollout.reveal_BL.masked_fill(rollout.reveal_BL < 0, T)
    first_BM = step_BL.new_full((len(step_BL), most), T)
    first_BM = first_BM.scatter_reduce(1, number_BL, step_BL, "amin")
    return torch.maximum(start_BL, first_BM.gather(1, number_BL))


def _of_steps(
    rollout: Rollout, steps: Steps, hide_BRL: Tensor, score_BRL: Tensor, unit_BRL: Tensor,
    temperature: float,
) -> Views:  # fmt: skip
    """Views with a unit for each chosen step, whichever views score it."""
    B, K = steps.start_BK.shape
    weight_BU = steps.weight_BK.float()
    column_BU = torch.arange(K, device=weight_BU.device).expand(B, K).contiguous()
    count_BU = torch.zeros_like(weight_BU).scatter_add(
        1, unit_BRL.flatten(1), score_BRL.flatten(1).float()
    )
    return Views(
        hide_BRL, score_BRL, score_BRL.float(), unit_BRL, count_BU, weight_BU, column_BU,
        temperature, layout="dual_stream", parent_BU=parents(rollout, steps.start_BK),
    )  # fmt: skip


def _layers(steps: Steps) -> int:
    """Chosen spans that hold one and the same step, at most: 1 unless some were chosen twice."""
    used_BK = steps.weight_BK > 0
    never = int(steps.stop_BK.max()) + 1 if steps.stop_BK.numel() else 1
    start_BK = steps.start_BK.masked_fill(~used_BK, never).contiguous()
    stop_BK = steps.stop_BK.masked_fill(~used_BK, never)
    begun_BK = torch.searchsorted(start_BK.sort(1).values, start_BK, right=True)
    ended_BK = torch.searchsorted(stop_BK.sort(1).values, start_BK, right=True)
    open_BK = torch.where(used_BK, begun_BK - ended_BK, 0)
    return max(1, int(open_BK.max()) if open_BK.numel() else 1)


def _require_order(
    rollout: Rollout, steps: Steps, number_BL: Tensor, most: int, scored_BL: Tensor
) -> None:
    """Refuse states that a clean stream cannot show: a noised block behind an unfinished one."""
    answer_BL, T = rollout.answer_BL, rollout.num_steps
    if rollout.hidden_BTN is not None and _masked_again(rollout, rollout.hidden_BTN):
        raise UsageError(
            f"{PART} shows finished blocks as they ended up, and this sampler masked tokens again; "
            f"use {FULL}"
        )
    step_BL = torch.where(rollout.reveal_BL < 0, T, rollout.reveal_BL)
    step_BL = torch.where(answer_BL, step_BL, -1)
    last_BM = step_BL.new_full((len(step_BL), most), -1)
    last_BM = last_BM.scatter_reduce(1, number_BL, step_BL, "amax").cummax(1).values
    before_BM = torch.cat([torch.full_like(last_BM[:, :1], -1), last_BM[:, :-1]], 1)
    late_BL = answer_BL & scored_BL & (rollout.reveal_BL >= 0)
    late_BL = late_BL & (rollout.reveal_BL <= before_BM.gather(1, number_BL))
    if not late_BL.any():
        return
    chosen_BT = _chosen(steps, T)
    row, slot = late_BL.nonzero(as_tuple=True)
    bad = chosen_BT[row, rollout.reveal_BL[row, slot]].nonzero()
    if len(bad) == 0:
        return
    step = int(rollout.reveal_BL[row[bad[0]], slot[bad[0]]])
    raise UsageError(
        f"{PART} needs every block finished before the next one is begun, and step {step} of a row "
        f"wrote into a block of {rollout.block_size} tokens behind an unfinished one; use sampler "
        f"block_diffusion, or {FULL}"
    )


def _chosen(steps: Steps, num_steps: int) -> Tensor:
    """Bool (B, T): steps that some chosen span of nonzero weight holds."""
    used_BK = (steps.weight_BK > 0).long()
    edge = used_BK.new_zeros(len(used_BK), num_steps + 1)
    edge = edge.scatter_add(1, steps.start_BK, used_BK).scatter_add(1, steps.stop_BK, -used_BK)
    return edge.cumsum(1)[:, :num_steps] > 0


def _masked_again(rollout: Rollout, hidden_BTN: Tensor) -> bool:
    """Whether some slot was masked after it had been filled."""
    _, T, N = hidden_BTN.shape
    reveal_BN, answer_BN = rollout.reveal_BL[:, -N:], rollout.answer_BL[:, -N:]
    step = torch.arange(T, device=hidden_BTN.device).view(1, T, 1)
    once_BTN = (reveal_BN.unsqueeze(1) >= step) | (reveal_BN < 0).unsqueeze(1)
    return bool(((once_BTN != hidden_BTN) & answer_BN.unsqueeze(1)).any())
