"""A table of two slots whose numbers are computed by hand."""

import math

import torch

from dllmzoo.lab.estimators.table_world import Table

MASK = 2


def two_slots(first=0.5, second_then=0.8, second=0.25, first_then=0.6) -> Table:
    """The answer (1, 1): p(first), p(second | first), p(second), p(first | second)."""
    policy = Table(2)
    with torch.no_grad():
        policy.table.zero_()
        for state, slot, prob in (
            ((MASK, MASK), 0, first),
            ((1, MASK), 1, second_then),
            ((MASK, MASK), 1, second),
            ((MASK, 1), 0, first_then),
        ):
            row = state[0] + 3 * state[1]
            policy.table[row, slot] = torch.tensor([math.log(1 - prob), math.log(prob)])
    return policy


TOKENS_XL = torch.tensor([[0, 1, 1]])
OPEN_L = torch.tensor([False, True, True])
