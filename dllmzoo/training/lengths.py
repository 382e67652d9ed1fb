"""Prompts of like length run together, without the columns that are padding in all of them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from dllmzoo.records import Prompts, Rollout
from dllmzoo.training.reads import whole_rows


def narrowed(prompts: Prompts) -> Prompts:
    """The rows without the columns in which none of them has a token."""
    start = int(prompts.attend_BL.bool().long().argmax(1).min()) if len(prompts.tokens_BL) else 0
    if start == 0:
        return prompts
    tokens_BL, attend_BL = prompts.tokens_BL[:, start:], prompts.attend_BL[:, start:]
    return replace(prompts, tokens_BL=tokens_BL, attend_BL=attend_BL)


def widened(rollout: Rollout, prompts: Prompts) -> Rollout:
    """The rollout of narrowed prompts with the columns of `prompts` again.

    Its `reads` say that these columns never ran.
    """
    length = rollout.tokens_BL.shape[1]
    start = prompts.tokens_BL.shape[1] + rollout.canvas - length
    if start == 0:
        return rollout
    changes: dict[str, Any] = {}
    for field in fields(rollout):
        value = getattr(rollout, field.name)
        if isinstance(value, Tensor) and field.name.endswith("_BL"):
            fill = -1 if field.name == "reveal_BL" else 0
            changes[field.name] = pad(value, (start, 0), value=fill)
    before_BL = prompts.tokens_BL[:, :start].to(rollout.tokens_BL.device)
    changes["tokens_BL"] = torch.cat([before_BL, rollout.tokens_BL], 1)
    return replace(with_reads(rollout), **changes)


def with_reads(rollout: Rollout) -> Rollout:
    """The rollout, whose `reads` say what ran even where all forwards were of whole rows."""
    if rollout.reads:
        return rollout
    return replace(rollout, reads=whole_rows(rollout, rollout.sampler))
