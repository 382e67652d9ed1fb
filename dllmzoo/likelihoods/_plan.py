"""Pieces that plans share: keyed numbers per slot, and views that feed one kind of unit."""

import torch
from torch import Tensor

from dllmzoo.records import Key, Rollout, Views


def slot_uniform(key: Key, rollout: Rollout) -> Tensor:
    """Numbers in [0, 1) for each slot, (B, L); padding does not move a row's numbers.

    The p-th real token of a row gets the p-th number of the row's stream, however many padding
    positions stand before it.
    """
    L = rollout.tokens_BL.shape[1]
    device = rollout.tokens_BL.device
    drawn_BL = key.uniform(rollout.sample_B, L).to(device)
    place_BL = (rollout.attend_BL.long().cumsum(1) - 1).clamp(min=0)
    return drawn_BL.gather(1, place_BL)


def random_subset(key: Key, rollout: Rollout, among_BL: Tensor, size_B: Tensor) -> Tensor:
    """A uniformly random subset of `among_BL` with `size_B` slots in each row, bool (B, L)."""
    drawn_BL = slot_uniform(key, rollout).masked_fill(~among_BL, 2.0)
    rank_BL = drawn_BL.argsort(dim=1, stable=True).argsort(dim=1)
    return (rank_BL < size_B.unsqueeze(1)) & among_BL


def slot_views(hide_BKL: Tensor, score_BKL: Tensor, temperature: float) -> Views:
    """Views in which every slot is a unit of its own (U = L), of weight 1."""
    B, K, L = score_BKL.shape
    device = score_BKL.device
    ones_BU = torch.ones(B, L, device=device)
    return Views(
        hide_BKL=hide_BKL,
        score_BKL=score_BKL,
        weight_BKL=score_BKL.float(),
        unit_BKL=torch.arange(L, device=device).expand(B, K, L).contiguous(),
        size_BU=ones_BU,
        weight_BU=ones_BU,
        column_BU=torch.zeros(B, L, dtype=torch.long, device=device),
        temperature=temperature,
    )


def sequence_views(
    hide_BKL: Tensor, score_BKL: Tensor, weight_BKL: Tensor, size_B: Tensor, temperature: float
) -> Views:
    """Views that all feed one unit, the sequence (U = 1), which stands for `size_B` tokens."""
    B = len(score_BKL)
    return Views(
        hide_BKL=hide_BKL,
        score_BKL=score_BKL,
        weight_BKL=weight_BKL * score_BKL,
        unit_BKL=torch.zeros_like(score_BKL, dtype=torch.long),
        size_BU=size_B.float().unsqueeze(1),
        weight_BU=torch.ones(B, 1, device=score_BKL.device),
        column_BU=torch.zeros(B, 1, dtype=torch.long, device=score_BKL.device),
        temperature=temperature,
    )
