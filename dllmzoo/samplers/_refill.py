"""A walk in which the place of a finished row is taken by one that waits."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive, Walk


def refill(sampler: SemiAutoregressive, walk: Walk, width: int) -> None:
    """Take every row through its steps, `width` of them in each forward as long as any waits.

    Each row is at a step of its own. What it draws depends on that step and on nothing else, so
    its answer is the one that it gets in any other company.

    Args:
        sampler: whose rows may stop before the last step.
        walk: of all rows, none of them begun.
        width: rows of one forward, >= 1.
    """
    canvas = walk.canvas
    device = canvas.hidden_BN.device
    waiting = torch.arange(len(canvas.hidden_BN), device=device)
    plan = _Plan(sampler, device)
    (_, read), *_ = sampler._reads(walk, waiting).forwards(waiting, None)
    rows, step_R = waiting[:0], waiting[:0]
    while len(rows) or len(waiting):
        free = width - len(rows)
        rows, waiting = torch.cat([rows, waiting[:free]]), waiting[free:]
        step_R = torch.cat([step_R, step_R.new_full((len(rows) - len(step_R),), plan.first)])
        block, count = plan.at(step_R)
        at_RN = sampler._active(canvas.hidden_BN[rows], block)
        found = sampler._candidates(walk, read, rows, step_R, at_RN, None)
        canvas.commit(rows, step_R, at_RN, sampler._chosen(found, at_RN, count), found)
        hidden_RN = canvas.hidden_BN[rows]
        open_RN = at_RN & hidden_RN if block is None else sampler._active(hidden_RN, block)
        sampler._unfinished(canvas, rows, open_RN, walk.policy.stop_ids)
        goes_on_R = canvas.running_B[rows]
        rows, step_R = rows[goes_on_R], plan.after(step_R)[goes_on_R]


class _Plan:
    """Block and commits of the step that each row is at; both None where a threshold decides."""

    def __init__(self, sampler: SemiAutoregressive, device: torch.device) -> None:
        steps = sampler._plan()
        busy = [step for step, (_, count) in enumerate(steps) if count != 0]
        self.first = busy[0]
        following = dict(pairwise(busy))
        after_T = [following.get(step, len(steps)) for step in range(len(steps))]
        self._after_T = torch.tensor(after_T, device=device)
        self._plan_T2: Tensor | None = None
        if sampler.threshold is None:
            self._plan_T2 = torch.tensor(steps, device=device)

    def at(self, step_R: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """block_R1 and count_R."""
        if self._plan_T2 is None:
            return None, None
        block_R, count_R = self._plan_T2[step_R].unbind(1)
        return block_R.unsqueeze(1), count_R

    def after(self, step_R: Tensor) -> Tensor:
        """The next step that commits something; T behind the last."""
        return self._after_T[step_R]
