"""Rows that hold the same tokens: what a network says of one it says of all of them."""

from __future__ import annotations

from torch import Tensor


def alike(tokens_BL: Tensor, attend_BL: Tensor) -> tuple[Tensor, Tensor]:
    """One row for each different sequence of real tokens, and which of them each row is.

    Returns:
        first_U: int64, row numbers, ascending.
        which_B: int64 in [0, U), place in `first_U`.
    """
    real_BL = tokens_BL.masked_fill(~attend_BL, -1)
    which_B = real_BL.unique(dim=0, return_inverse=True)[1]
    row_B = which_B.new_ones(len(which_B)).cumsum(0) - 1
    first_U = row_B.new_full((int(which_B.max()) + 1,), len(row_B))
    first_U = first_U.scatter_reduce(0, which_B, row_B, "amin")
    first_U, order_U = first_U.sort()
    return first_U, order_U.argsort()[which_B]
