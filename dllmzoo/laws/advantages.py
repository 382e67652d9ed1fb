"""Laws of advantage estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs, trees
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import Report, check, law, require, same
from dllmzoo.records import Steps, take

Advantage = Any


def check_advantage(part: Any, *, cases: int = 20, seed: int = 0) -> Report:
    """Hold an advantage (a class or an instance) to every law of advantages; see `law.check`.

    One that reads branches is given trees of answers, and one that needs every step gets columns
    in the order of time. A property `compares_groups` says that a group's advantages depend on
    the other groups of the round.
    """
    return check("advantage", part, cases=cases, seed=seed)


@dataclass(frozen=True)
class Scored:
    """Rewards of a round, rows ordered (p g); group numbers have gaps.

    Args:
        final_B: rewards of the answers.
        preview_BKG: rewards of the guesses of each chosen state, G being guesses here.
        step_BK: the chosen steps, in another order in every row unless time matters.
        group_B: prompt of each row.
        counted_B: False = the final reward abstained.
        round: outer iteration.
        branch_BT: which rows share steps; None = they share none.
    """

    final_B: Tensor
    preview_BKG: Tensor
    step_BK: Tensor
    group_B: Tensor
    counted_B: Tensor
    round: int
    branch_BT: Tensor | None = None

    def credit(self, advantage: Advantage) -> Tensor:
        """advantage_BA; previews are given only where they are needed."""
        B, K = self.step_BK.shape
        reveal_BN = torch.arange(K).expand(B, K)
        source = inputs.played(torch.zeros_like(reveal_BN), reveal_BN)
        source = replace(source, group_B=self.group_B, branch_BT=self.branch_BT)
        steps = Steps(self.step_BK, self.step_BK + 1, torch.ones(B, K))
        previews = inputs.rewards(self.preview_BKG.flatten()) if advantage.needs_previews else None
        finals = inputs.rewards(self.final_B, self.counted_B)
        return advantage(finals, previews, steps, source, self.round)

    def change(self, final_B: Tensor, preview_BKG: Tensor) -> Scored:
        """Other rewards of the same rows."""
        return replace(self, final_B=final_B, preview_BKG=preview_BKG)

    def judged(self) -> Tensor:
        """Bool (B, K): entries whose step leads to an answer with a counted reward."""
        if self.branch_BT is None:
            return self.counted_B.unsqueeze(1).expand_as(self.step_BK)
        branch_BK = self.branch_BT.gather(1, self.step_BK)
        shared_BBK = self.branch_BT[:, self.step_BK].transpose(0, 1) == branch_BK.unsqueeze(1)
        shared_BBK &= (self.group_B == self.group_B.unsqueeze(1)).unsqueeze(2)
        return (shared_BBK & self.counted_B.view(1, -1, 1)).any(1)


def scored(advantage: Advantage, case: Case) -> Scored:
    """Random rewards, whole numbers half of the time."""
    tree = getattr(advantage, "needs_branches", False)
    in_time = tree or getattr(advantage, "needs_every_step", False)
    P, G = case.integer("groups", 1, 4), case.integer("samples", 2, 6)
    K, n = case.integer("columns", 1, 5), getattr(advantage, "guesses", 1)
    branch_BT = None
    if tree:
        factors = trees.shape(case)
        G, K = math.prod(factors), len(factors) + K - 1
        branch_BT = trees.branches(case, P, K)
    B = P * G
    final_B = case.normal("final", B, scale=3.0)
    preview_BKG = case.normal("preview", B, K, n, scale=3.0)
    if case.truth("whole"):
        final_B, preview_BKG = final_B.round(), preview_BKG.round()
    orders = [torch.arange(K) if in_time else case.order(f"steps {b}", K) for b in range(B)]
    group_B = (case.integer("first group", 0, 5) + 2 * torch.arange(P)).repeat_interleave(G)
    counted_B = torch.ones(B, dtype=torch.bool)
    return Scored(
        final_B, preview_BKG, torch.stack(orders), group_B, counted_B,
        case.integer("round", 0, 5), branch_BT,
    )  # fmt: skip


@law("advantage")
def columns(advantage: Advantage, case: Case) -> None:
    """One column, or one for each chosen step if `per_step`; finite; no gradient."""
    given = scored(advantage, case)
    found = given.credit(advantage)
    B, K = given.step_BK.shape
    shape = (B, K if advantage.per_step else 1)
    require(tuple(found.shape) == shape, f"shape {tuple(found.shape)}, expected {shape}")
    require(found.isfinite().all(), f"not finite: {found.tolist()}")
    require(not found.requires_grad, "it carries gradient")


@law("advantage")
def equal_rewards_give_zero(advantage: Advantage, case: Case) -> None:
    """Samples of a prompt with equal rewards and equal previews get nothing."""
    given = scored(advantage, case)
    first_B = torch.searchsorted(given.group_B, given.group_B)
    alike = given.change(
        given.final_B[first_B], given.preview_BKG[first_B, :1].expand_as(given.preview_BKG)
    )
    found = alike.credit(advantage)
    same(found, torch.zeros_like(found), "advantage of equal rewards", 2e-6)


@law("advantage")
def permuting_a_group_permutes(advantage: Advantage, case: Case) -> None:
    """Exchanging samples of a prompt exchanges their advantages and changes nothing else."""
    given = scored(advantage, case)
    groups = given.group_B.unique().tolist()
    rows = [inputs.rows_of_groups(given.group_B, [g]) for g in groups]
    order_B = torch.cat(
        [r[case.order(f"group {g}", len(r))] for g, r in zip(groups, rows, strict=True)]
    )
    found, straight = take(given, order_B).credit(advantage), given.credit(advantage)
    same(found, straight[order_B], "advantage after exchanging samples", 1e-5)


def _judges_groups_alone(advantage: Advantage) -> str | None:
    compares = getattr(advantage, "compares_groups", False)
    return "it compares the prompts of a round" if compares else None


@law("advantage", _judges_groups_alone)
def groups_are_independent(advantage: Advantage, case: Case) -> None:
    """A group's advantages do not depend on the other groups, their number or their order."""
    given = scored(advantage, case)
    straight = given.credit(advantage)
    groups = given.group_B.unique()
    order_B = inputs.rows_of_groups(
        given.group_B, groups[case.order("groups", len(groups))].tolist()
    )
    same(take(given, order_B).credit(advantage), straight[order_B], "groups in another order", 1e-5)
    for g in groups.tolist():
        rows = inputs.rows_of_groups(given.group_B, [g])
        same(take(given, rows).credit(advantage), straight[rows], f"group {g} alone", 1e-5)


@law("advantage")
def groups_sum_to_zero(advantage: Advantage, case: Case) -> None:
    """The advantages of a prompt's samples sum to 0 in every column."""
    given = scored(advantage, case)
    found = given.credit(advantage)
    for g in given.group_B.unique().tolist():
        sum_A = found[given.group_B == g].sum(0)
        same(sum_A, torch.zeros_like(sum_A), f"sum over group {g}", 1e-4)


@law("advantage")
def shift(advantage: Advantage, case: Case) -> None:
    """A constant added to every reward and every preview changes nothing."""
    given = scored(advantage, case)
    constant = float(case.uniform("shift", low=1, high=4)) * case.among("sign", (-1, 1))
    moved = given.change(given.final_B + constant, given.preview_BKG + constant)
    same(
        moved.credit(advantage), given.credit(advantage), f"advantage after adding {constant}", 1e-4
    )  # fmt: skip


@law("advantage")
def scale(advantage: Advantage, case: Case) -> None:
    """Rewards times a > 1 give advantages between the same ones (standardised) and a times them."""
    given = scored(advantage, case)
    a = 2.0 if float(case.uniform("scale")) < 0.5 else 4.0  # equal rewards stay equal to the bit
    straight = given.credit(advantage)
    found = given.change(a * given.final_B, a * given.preview_BKG).credit(advantage)
    low, high = torch.minimum(straight, a * straight), torch.maximum(straight, a * straight)
    room = 1e-4 + 1e-4 * high.abs()
    between = (found >= low - room) & (found <= high + room)
    require(between.all(), f"times {a}: {found.tolist()} from {straight.tolist()}")


@law("advantage")
def abstained_rows_are_nothing(advantage: Advantage, case: Case) -> None:
    """What leads to no counted reward gets 0, and the other rows what they get without it."""
    given = scored(advantage, case)
    counted_B = case.uniform("counted", len(given.final_B)) < 0.7
    counted_B[:2] = torch.tensor([True, False])
    given = replace(given, counted_B=counted_B)
    found, judged_BK = given.credit(advantage), given.judged()
    require(found.isfinite().all(), f"not finite: {found.tolist()}")
    lost = found[~judged_BK[:, : found.shape[1]]]
    same(lost, torch.zeros_like(lost), "advantage of an abstained row")
    if given.branch_BT is not None:
        return  # without a leaf the tree is another one
    kept = counted_B.nonzero()[:, 0]
    same(found[kept], take(given, kept).credit(advantage), "advantage beside abstained rows", 1e-5)


def _has_weight(advantage: Advantage) -> str | None:
    if advantage.needs_previews and hasattr(advantage, "weight"):
        return None
    return "it has no weight of a stepwise term"


@law("advantage", _has_weight)
def zero_weight_is_group_relative(advantage: Advantage, case: Case) -> None:
    """With weight 0 the previews do not matter, and A = reward - group mean, bit for bit."""
    from dllmzoo.zoo import ADVANTAGES

    plain, given = replace(advantage, weight=0.0), scored(advantage, case)
    found = given.credit(plain)
    other = given.change(given.final_B, case.normal("other", *given.preview_BKG.shape))
    same(found, other.credit(plain), "advantage with other previews")
    if getattr(plain, "reward_baseline", "mean") == "mean":
        final = given.credit(ADVANTAGES.get("group_relative")())
        same(found, final.expand_as(found), "advantage with weight 0")


def _reads_branches(advantage: Advantage) -> str | None:
    return None if getattr(advantage, "needs_branches", False) else "it reads no branches"


@law("advantage", _reads_branches)
def sharers_share_credit(advantage: Advantage, case: Case) -> None:
    """Samples that share a step have the same advantage at it."""
    given = scored(advantage, case)
    found = given.credit(advantage)
    assert given.branch_BT is not None, "scored() makes a tree for what reads one"
    for row, other in torch.combinations(torch.arange(len(found))).tolist():
        if given.group_B[row] == given.group_B[other]:
            shared_K = given.branch_BT[row] == given.branch_BT[other]
            same(found[other, shared_K], found[row, shared_K], f"rows {row} and {other}", 1e-6)
