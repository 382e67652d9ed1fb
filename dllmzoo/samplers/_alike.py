"""Samples of a prompt that hold the same tokens: what a network says of one it says of all."""

from __future__ import annotations

import torch
from torch import Tensor


def alike(tokens_BL: Tensor, attend_BL: Tensor, group_B: Tensor) -> tuple[Tensor, Tensor]:
    """One row for each different sequence of real tokens in a group, and which each row is.

    Equal prompts of two groups count as different: a round then runs as many forwards on two
    processes as on one.

    Returns:
        first_U: int64, row numbers, ascending.
        which_B: int64 in [0, U), place in `first_U`.
    """
    group_B1 = group_B.to(tokens_BL.device).unsqueeze(1)
    real_BL = torch.cat([group_B1, tokens_BL.masked_fill(~attend_BL, -1)], 1)
    first_U, which_B = first_alike(real_BL).unique(return_inverse=True)
    return first_U, which_B


def first_alike(value_BD: Tensor) -> Tensor:
    """For each row the number of the first row that equals it, int64 (B,)."""
    index_B = value_BD.unique(dim=0, return_inverse=True)[1]
    row_B = torch.arange(len(index_B), device=index_B.device)
    first = row_B.new_full((len(index_B),), len(index_B))
    return first.scatter_reduce(0, index_B, row_B, "amin")[index_B]
