"""Selector that cuts the denoising steps into equal segments."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import spans
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("segments")
@dataclass(frozen=True)
class Segments:
    r"""All denoising steps, cut into `parts` spans of equal length.

    Segment k runs from step $\lfloor k T / P \rfloor$ to the start of the next and is scored from
    the state before its first step: P views for the whole trajectory, each committed token scored
    once, the later ones of a segment from a staler state than they were sampled from. A segment
    in which a sequence committed nothing has weight 0.

    Args:
        parts: P, >= 1; more than T are T, one step each.

    References:
        The merged steps of Wang et al., 2025, d2 (arXiv:2509.21474): 8 or 16 segments.
    """

    parts: Annotated[int, Field(ge=1)] = 8

    state_only: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps."""
        return min(self.parts, num_steps)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is the k-th segment in time; the key is not read."""
        T, P = rollout.num_steps, self.num_selected(rollout.num_steps)
        step_T = torch.arange(T, device=rollout.tokens_BL.device)
        column_T = ((step_T + 1) * P - 1) // T
        column_BT = column_T.expand(len(rollout.tokens_BL), T)
        return spans(column_BT, P, rollout)
