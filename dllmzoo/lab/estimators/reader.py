"""Log-probs of views and their pull-backs to the parameters, each different input read once.

The lab scores many rows that hold few different inputs: all answers of a handful of slots. The
numbers are those of `dllmzoo.scoring`, which a test compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dllmzoo.records import Rollout, Views


@dataclass(frozen=True)
class Reading:
    """What views ask of a policy: different inputs, and where each scored slot finds its number.

    Args:
        noised_RL: int64, the R different inputs.
        attend_RL: bool, their real positions.
        at_RL: bool, slots whose logits are needed, S in all.
        temperature: > 0, of the log-softmax.
        cell: int64, which of the S slots each scored slot of the views reads, in their order.
        token: int64, the token each of them scores.
        scored_BKL: bool, the scored slots.
    """

    noised_RL: Tensor
    attend_RL: Tensor
    at_RL: Tensor
    temperature: float
    cell: Tensor
    token: Tensor
    scored_BKL: Tensor


def reading(rollout: Rollout, views: Views, mask_id: int) -> Reading:
    """Find the different inputs of views of one stream."""
    scored_BKL = views.score_BKL
    row, view = scored_BKL.any(2).nonzero(as_tuple=True)
    final_RL = rollout.tokens_BL[row]
    shown_RL = final_RL if views.shown_BKL is None else views.shown_BKL[row, view]
    target_RL = final_RL if views.target_BKL is None else views.target_BKL[row, view]
    noised_RL = shown_RL.masked_fill(views.hide_BKL[row, view], mask_id)
    attend_RL, score_RL = rollout.attend_BL[row], scored_BKL[row, view]
    place_R, first = alike(torch.cat([noised_RL, attend_RL.long()], 1))
    at_RL = torch.zeros(len(first), noised_RL.shape[1], dtype=torch.bool)
    i, slot = score_RL.nonzero(as_tuple=True)
    at_RL[place_R[i], slot] = True
    number_RL = (at_RL.flatten().long().cumsum(0) - 1).view(at_RL.shape)
    return Reading(
        noised_RL[first], attend_RL[first], at_RL, views.temperature,
        number_RL[place_R[i], slot], target_RL[i, slot], scored_BKL,
    )  # fmt: skip


def alike(value_RL: Tensor) -> tuple[Tensor, Tensor]:
    """Number equal rows alike: the number of each row, and the first row of each number.

    Exact: columns are joined to one whole number a row, renumbered before it can overflow.
    """
    code_R = value_RL.new_zeros(len(value_RL))
    for column in range(value_RL.shape[1]):
        value_R = value_RL[:, column]
        if len(value_R) and (value_R != value_R[0]).any():
            value_R = value_R - value_R.min()
            code_R = code_R * (int(value_R.max()) + 1) + value_R
            code_R = code_R.unique(return_inverse=True)[1]
    numbers, code_R = code_R.unique(return_inverse=True)
    row_R = torch.arange(len(code_R))
    first = torch.full((len(numbers),), len(code_R)).scatter_reduce(0, code_R, row_R, "amin")
    return code_R, first


@torch.no_grad()
def logprobs(policy: Any, found: Reading, micro_batch: int) -> Tensor:
    """logprob_BKL, 0 where nothing is scored; float32, or float64 of a float64 policy."""
    parts = [
        _logprob_SV(policy, found, rows) for rows in _chunks(len(found.noised_RL), micro_batch)
    ]
    scored_BKL = found.scored_BKL
    if not parts:
        return torch.zeros(scored_BKL.shape)
    logprob_SV = torch.cat(parts)
    out_BKL = logprob_SV.new_zeros(scored_BKL.shape)
    out_BKL[scored_BKL] = logprob_SV[found.cell, found.token]
    return out_BKL


def pull_back(
    policy: Any, found: Reading, grad_BKL: Tensor, estimate_B: Tensor, count: int, micro_batch: int
) -> Iterator[Tensor]:
    """Gradients in all parameters, flat float64, of `count` sums of grad * logprob, one by one.

    Args:
        policy: the network.
        found: what the log-probs were read from.
        grad_BKL: weight of each log-prob.
        estimate_B: the sum that each row belongs to, in [0, count).
        count: how many sums.
        micro_batch: inputs of one forward.
    """
    parameters = [p for p in policy.parameters() if p.requires_grad]
    S = int(found.at_RL.sum())
    row = found.scored_BKL.nonzero(as_tuple=True)[0]
    vocabulary = int(found.token.max()) + 1 if S else 1
    place = (estimate_B[row] * S + found.cell) * vocabulary + found.token
    weight = grad_BKL[found.scored_BKL]
    weight_SV = weight.new_zeros(count * S * vocabulary).index_add(0, place, weight)
    weight_SV = weight_SV.view(count, S, vocabulary)
    row_S = torch.arange(len(found.at_RL)).repeat_interleave(found.at_RL.sum(1))
    for estimate in range(count):
        total = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
        fed_S = (weight_SV[estimate] != 0).any(1)
        for part in row_S[fed_S].unique().split(micro_batch):
            if len(part) == 0:
                continue
            weight = weight_SV[estimate][torch.isin(row_S, part)]
            value = (_logprob_SV(policy, found, part)[:, :vocabulary] * weight).sum()
            for slot, grad in zip(total, torch.autograd.grad(value, parameters), strict=True):
                slot += grad
        yield torch.cat([slot.flatten() for slot in total])


def _logprob_SV(policy: Any, found: Reading, rows: Tensor) -> Tensor:
    """Log-probs of every token at the needed slots of some inputs."""
    at_RL = found.at_RL[rows]
    out = policy(found.noised_RL[rows], found.attend_RL[rows], logits_at=at_RL).logits
    precision = torch.promote_types(out.dtype, torch.float32)
    return (out.to(precision) / found.temperature).log_softmax(-1)


def _chunks(count: int, size: int) -> Iterator[Tensor]:
    yield from torch.arange(count).split(size) if count else ()
