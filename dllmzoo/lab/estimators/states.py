"""What a policy says of answers in given states: the numbers that exact truths are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dllmzoo.lab.estimators.reader import alike


@dataclass(frozen=True)
class Trajectories:
    """How rows of answers came about, one slot a step, N steps.

    Args:
        index_B: int64, which answer.
        reveal_BN: int64, step at which each slot was revealed.
        logprob_BN: float64 nats, of each token when revealed.
        entropy_BN: float64 nats, of the law it was drawn from.
        entropy_BT: float64 nats, mean over the slots still masked before each step.
    """

    index_B: Tensor
    reveal_BN: Tensor
    logprob_BN: Tensor
    entropy_BN: Tensor
    entropy_BT: Tensor


def look(
    policy: Any, tokens_RL: Tensor, open_L: Tensor, hidden_RN: Tensor, *, micro_batch: int = 512
) -> tuple[Tensor, Tensor]:
    """logprob_RN and entropy_RN, float64 nats: 0 at slots that a state does not hide.

    Args:
        policy: the network, at temperature 1.
        tokens_RL: prompts with answers.
        open_L: bool, the N slots in question.
        hidden_RN: bool, which of them each state hides.
        micro_batch: inputs of one forward; each different input is read once.
    """
    slot_N = open_L.nonzero()[:, 0]
    noised_RL = tokens_RL.clone()
    noised_RL[:, slot_N] = noised_RL[:, slot_N].masked_fill(hidden_RN, policy.mask_id)
    place_R, first = alike(noised_RL)
    at = torch.zeros_like(noised_RL[first], dtype=torch.bool)
    at[:, slot_N] = hidden_RN[first]
    if not at.any():
        zero_RN = torch.zeros(hidden_RN.shape, dtype=torch.float64)
        return zero_RN, zero_RN.clone()
    laws = []
    with torch.no_grad():
        for part in at.any(1).nonzero()[:, 0].split(micro_batch):
            inputs = noised_RL[first[part]]
            logits = policy(inputs, torch.ones_like(inputs, dtype=torch.bool), logits_at=at[part])
            laws.append(logits.logits.double().log_softmax(-1))
    law_SV = torch.cat(laws)
    number = (at[:, slot_N].flatten().long().cumsum(0) - 1).view(-1, len(slot_N)).clamp(min=0)
    cell_RN = number[place_R]
    entropy_S = torch.special.entr(law_SV.exp()).sum(-1)
    logprob_RN = law_SV[cell_RN, tokens_RL[:, slot_N]]
    return (
        torch.where(hidden_RN, logprob_RN, 0.0),
        torch.where(hidden_RN, entropy_S[cell_RN], 0.0),
    )
