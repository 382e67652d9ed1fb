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
    which_B = real_BL.unique(dim=0, return_inverse=True)[1]
    row_B = which_B.new_ones(len(which_B)).cumsum(0) - 1
    first_U = row_B.new_full((int(which_B.max()) + 1 if len(which_B) else 0,), len(row_B))
    first_U = first_U.scatter_reduce(0, which_B, row_B, "amin")
    first_U, order_U = first_U.sort()
    return first_U, order_U.argsort()[which_B]
