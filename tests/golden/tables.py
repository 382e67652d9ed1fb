"""Records around the bare tensors of golden cases, for the parts that need no network."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from dllmzoo.records import Key, Rewards, Rollout

KEY = Key(seed=0, round=0, purpose="golden")


def rollout_of(
    tokens_BL: Tensor,
    *,
    canvas: int,
    valid_BN: Tensor | None = None,
    reveal_BN: Tensor | None = None,
    entropy_BN: Tensor | None = None,
    num_steps: int = 1,
    group_size: int | None = None,
) -> Rollout:
    """A rollout whose last `canvas` slots are the answer, at temperature 1, without padding."""
    B, L = tokens_BL.shape

    def answer(value_BN: Tensor | None, rest: Any, default: Any) -> Tensor:
        value_BN = torch.full((B, canvas), default) if value_BN is None else value_BN
        before = torch.full((B, L - canvas), rest, dtype=value_BN.dtype)
        return torch.cat([before, value_BN], dim=1)

    index_B = torch.arange(B)
    return Rollout(
        tokens_BL=tokens_BL.long(),
        attend_BL=torch.ones(B, L, dtype=torch.bool),
        answer_BL=answer(None, False, True),
        valid_BL=answer(None if valid_BN is None else valid_BN.bool(), False, True),
        reveal_BL=answer(reveal_BN, -1, 0),
        logprob_BL=torch.zeros(B, L),
        entropy_BL=answer(entropy_BN, 0.0, 0.0),
        confidence_BL=torch.zeros(B, L),
        block_entropy_BT=torch.zeros(B, num_steps),
        group_B=index_B // (group_size or B),
        sample_B=index_B,
        examples=[{}] * B,
        num_steps=num_steps,
        sampler=SimpleNamespace(temperature=1.0),
    )


def reveal_of(trajectory_BTL: Tensor, canvas: int) -> Tensor:
    """Step at which each answer slot changed, (B, N), from the states before step 0 ... T.

    -1 where it never did.
    """
    state_BTN = trajectory_BTL[:, :, -canvas:]
    changed_BTN = state_BTN[:, 1:] != state_BTN[:, :-1]
    return torch.where(changed_BTN.any(dim=1), changed_BTN.long().argmax(dim=1), -1)


def rewards_of(total_X: Sequence[float] | Tensor) -> Rewards:
    """Rewards of one component that all count."""
    total_X = torch.as_tensor(total_X, dtype=torch.float32).flatten()
    return Rewards(
        total_X=total_X,
        part_XC=total_X.unsqueeze(1),
        names=("reward",),
        counted_X=torch.ones_like(total_X, dtype=torch.bool),
        outcome_XC=torch.zeros(len(total_X), 1, dtype=torch.int8),
    )


@dataclass(frozen=True)
class Output:
    logits: Tensor


class TablePolicy(nn.Module):
    """A network that answers row i with the given logits; a row is known by its first token.

    Its mask token lies outside the vocabulary, so the logits are read as they stand.
    """

    stop_ids: tuple[int, ...] = ()
    block_size: int | None = None

    def __init__(self, logits_BNV: Tensor) -> None:
        super().__init__()
        self.mask_id = logits_BNV.shape[-1]
        self.table = nn.Parameter(logits_BNV.clone())

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        target_ids: Tensor | None = None,
        context: str = "block_causal",
        logits_at: Tensor,
    ) -> Output:
        answer_RNV = self.table[input_ids[:, 0]]
        prompt_RNV = answer_RNV.new_zeros(len(answer_RNV), 1, answer_RNV.shape[2])
        return Output(torch.cat([prompt_RNV, answer_RNV], dim=1)[logits_at])
