"""Pieces that plans share: random subsets, and views that feed one kind of unit."""

import torch
from torch import Tensor

from dllmzoo.records import Key, Rollout, Views


def random_subset(key: Key, rollout: Rollout, among_BL: Tensor, size_B: Tensor) -> Tensor:
    """A uniformly random subset of `among_BL` with `size_B` slots in each row, bool (B, L)."""
    drawn_BL = rollout.slot_uniform(key).masked_fill(~among_BL, 2.0)
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
