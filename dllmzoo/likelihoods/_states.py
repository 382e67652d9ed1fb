"""Views of the states before chosen denoising steps, and units of one slot in one view."""

from dataclasses import replace

import torch
from torch import Tensor

from dllmzoo.records import Rollout, Steps, Views

STEP_BITS, BRANCH_BITS = 16, 24
"""Bits of a parent's number that hold its step and its branch; the prompt stands above them."""


def state_views(
    rollout: Rollout, steps: Steps, hide_BKL: Tensor, score_BKL: Tensor, temperature: float
) -> Views:
    """Views that show the states before the chosen steps; one unit per step (U = K).

    Where trajectories share steps, units that start from one shared state have one parent.
    """
    B, K, L = score_BKL.shape
    column_BK = torch.arange(K, device=score_BKL.device).expand(B, K).contiguous()
    return Views(
        hide_BKL=hide_BKL,
        score_BKL=score_BKL,
        weight_BKL=score_BKL.float(),
        unit_BKL=column_BK.unsqueeze(2).expand(B, K, L).contiguous(),
        size_BU=score_BKL.sum(2).float(),
        weight_BU=steps.weight_BK.float(),
        column_BU=column_BK,
        temperature=temperature,
        shown_BKL=rollout.draft_before(steps.start_BK),
        parent_BU=parents(rollout, steps.start_BK),
    )


def slot_units(views: Views, steps: Steps) -> Views:
    """The same views with a unit for each slot of each view (U = K L), unit k L + l."""
    B, K, L = views.score_BKL.shape
    unit = torch.arange(K * L, device=views.score_BKL.device)
    column_BU = (unit // L).expand(B, -1).contiguous()
    parent_BU = views.parent_BU
    return replace(
        views,
        unit_BKL=unit.view(K, L).expand(B, K, L).contiguous(),
        size_BU=torch.ones(B, K * L, device=unit.device),
        weight_BU=steps.weight_BK.float().gather(1, column_BU),
        column_BU=column_BU,
        parent_BU=None if parent_BU is None else parent_BU.gather(1, column_BU),
    )


def parents(rollout: Rollout, start_BK: Tensor) -> Tensor | None:
    """Number of the state before each of the steps, (B, K); None where no state is shared.

    Made of the prompt, the step and the branch that led to the state: rows that shared the step
    before, and so all steps before it, have one number. The first state belongs to all samples of
    a prompt.
    """
    if rollout.branch_BT is None:
        return None
    led_BK = rollout.branch_BT.gather(1, (start_BK - 1).clamp(min=0)) + 1
    led_BK = torch.where(start_BK > 0, led_BK, 0)
    group_B1 = rollout.group_B.unsqueeze(1)
    return (((group_B1 << STEP_BITS) + start_BK) << BRANCH_BITS) + led_BK


def committed_in(rollout: Rollout, steps: Steps) -> Tensor:
    """inside_BKL: slots committed in each span; for good, where slots are masked again."""
    reveal_BKL = rollout.reveal_BL.unsqueeze(1)
    start_BK1, stop_BK1 = steps.start_BK.unsqueeze(2), steps.stop_BK.unsqueeze(2)
    return (reveal_BKL >= start_BK1) & (reveal_BKL < stop_BK1)
