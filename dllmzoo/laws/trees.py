"""Random rollouts in which the samples of a prompt grow from one tree."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.records import Rollout

SHAPES = ((2,), (3,), (4,), (2, 2), (2, 3), (3, 2), (2, 2, 2))
"""Children of the root, of its children, and so on."""


def shape(case: Case) -> tuple[int, ...]:
    """How many children the nodes of each level have; their product is G."""
    return case.among("tree", SHAPES)


def branches(case: Case, groups: int, num_steps: int) -> Tensor:
    """branch_BT of the trees of `groups` prompts, numbered in one of two ways.

    The first branching is at step 0 or later, the others behind it.

    Args:
        case: where the numbers come from; its `shape` is the shape of every tree.
        groups: P.
        num_steps: T, at least the levels of the tree.
    """
    factors = shape(case)
    G, D = math.prod(factors), len(factors)
    cut_D = case.order("branchings", num_steps)[:D].sort().values
    if case.truth("branches at once"):
        cut_D = cut_D - cut_D[0]
    depth_T = (torch.arange(num_steps).unsqueeze(1) >= cut_D).sum(1)
    sharers = torch.tensor([G // math.prod(factors[:depth]) for depth in range(D + 1)])
    row_B1 = torch.arange(groups * G).unsqueeze(1)
    first_BT = row_B1 // sharers[depth_T] * sharers[depth_T]
    if case.truth("numbered by row"):
        return first_BT
    return depth_T * groups * G + first_BT  # another number for every edge


def rollout(case: Case) -> Rollout:
    """A random rollout of complete answers; steps may commit nothing, but the last never."""
    factors = shape(case)
    start = inputs.prompts(case, samples=math.prod(factors))
    B, N = len(start.tokens_BL), case.integer("answer length", 1, 8)
    P, D = int(start.group_B.max()) + 1, len(factors)
    T = case.integer("steps", D, D + 5)
    branch_BT = branches(case, P, T)
    tokens_BN = torch.zeros(B, N, dtype=torch.long)
    reveal_BN = torch.full((B, N), T - 1)
    entropy_BN, block_BT = torch.zeros(B, N), torch.zeros(B, T)
    for step in range(T):
        # what happens at a step follows from the number of its branch, so sharers agree
        for number in branch_BT[:, step].unique().tolist():
            rows_B = branch_BT[:, step] == number
            tag = f"{number} {step}"
            open_N = reveal_BN[rows_B][0] == T - 1
            now_N = open_N & (case.uniform(f"commit {tag}", N) < 2 / T)
            now_N = open_N if step == T - 1 else now_N
            words_N = case.integers(f"words {tag}", 0, inputs.END_ID, N)
            nats_N = case.uniform(f"nats {tag}", N, high=2.0)
            tokens_BN[rows_B] = torch.where(now_N, words_N, tokens_BN[rows_B])
            entropy_BN[rows_B] = torch.where(now_N, nats_N, entropy_BN[rows_B])
            reveal_BN[rows_B] = torch.where(now_N, step, reveal_BN[rows_B])
            block_BT[rows_B, step] = case.uniform(f"block {tag}", high=2.0) * now_N.any()
    played = inputs.played(
        tokens_BN, reveal_BN, start=start, num_steps=T, entropy_BN=entropy_BN,
        block_entropy_BT=block_BT,
    )  # fmt: skip
    return replace(played, branch_BT=branch_BT)
