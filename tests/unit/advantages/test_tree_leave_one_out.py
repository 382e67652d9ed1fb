"""Edges of a tree against their siblings, by hand."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.laws import inputs
from dllmzoo.records import Rollout, Steps, take
from dllmzoo.zoo import ADVANTAGES, SELECTORS
from tests.strategies import chosen, played

TreeLoo = ADVANTAGES.get("tree_leave_one_out")
KEY = inputs.Case(0).key("select")


def tree(branch) -> Rollout:
    T = len(branch[0])
    rollout = played(
        [[0] * T] * len(branch), [list(range(T))] * len(branch), group_size=len(branch)
    )
    return replace(rollout, branch_BT=torch.tensor(branch))


def credit(rollout, reward, counted=None, steps: Steps | None = None):
    steps = SELECTORS.get("edges")()(rollout, KEY) if steps is None else steps
    counted_B = None if counted is None else torch.tensor(counted)
    rewards = inputs.rewards(torch.tensor(reward), counted_B)
    return TreeLoo()(rewards, None, steps, rollout, 0)


# two children of the root, two leaves each
TWO = tree([[0, 0], [0, 1], [2, 2], [2, 3]])


def test_paper_name_is_an_alias():
    assert ADVANTAGES.get("tree_loo") is TreeLoo
    assert TreeLoo().needs_branches and TreeLoo().per_step


def test_an_edge_is_worth_its_node_minus_the_other_children():
    # V of the children: (1 + 3) / 2 = 2 and (0 + 5) / 2 = 2.5
    found = credit(TWO, [1.0, 3.0, 0.0, 5.0])
    assert found.tolist() == [[-0.5, -2.0], [-0.5, 2.0], [0.5, -5.0], [0.5, 5.0]]
    assert found.dtype == torch.float32


def test_four_children_are_compared_with_the_mean_of_the_three_others():
    # leaves 0, 1, 2, 5: 0 - 8/3, 1 - 7/3, 2 - 2, 5 - 1, which is 4/3 of the gap to the mean
    found = credit(tree([[0], [1], [2], [3]]), [0.0, 1.0, 2.0, 5.0]).flatten().tolist()
    assert found == pytest.approx([-8 / 3, -4 / 3, 0.0, 4.0])
    assert found == pytest.approx([4 / 3 * (r - 2) for r in (0, 1, 2, 5)])


def test_a_node_is_the_mean_of_its_children_not_of_its_leaves():
    # the first child has leaves 0, 0, 6 where 0, 0 hang on a node of their own: (0 + 6) / 2 = 3
    branch = [[0, 0, 0], [0, 0, 1], [0, 2, 2], [3, 3, 3]]
    every = chosen([[0, 1, 2]] * 4)
    found = credit(tree(branch), [0.0, 0.0, 6.0, 1.0], steps=every)
    assert found[:, 0].tolist() == [2.0, 2.0, 2.0, -2.0]
    # the node of the two zeros against the leaf 6; the lone leaf keeps its edge to the end
    assert found[:, 1].tolist() == [-6.0, -6.0, 6.0, -2.0]
    assert found[:, 2].tolist() == [0.0, 0.0, 6.0, -2.0]


def test_abstained_leaves_are_out_of_every_mean():
    # leaf 1 does not count: V of the first child is 1; its other leaf has no sibling left
    found = credit(TWO, [1.0, 99.0, 0.0, 5.0], [True, False, True, True])
    assert found.tolist() == [[-1.5, 0.0], [-1.5, 0.0], [1.5, -5.0], [1.5, 5.0]]


def test_a_node_without_counted_leaves_is_no_sibling():
    found = credit(TWO, [9.0, 9.0, 0.0, 5.0], [False, False, True, True])
    assert found.tolist() == [[0.0, 0.0], [0.0, 0.0], [0.0, -5.0], [0.0, 5.0]]
    assert not credit(TWO, [9.0] * 4, [False] * 4).any()


def test_a_trunk_has_no_siblings():
    found = credit(tree([[0, 0], [0, 1]]), [1.0, 4.0])
    assert found.tolist() == [[0.0, -3.0], [0.0, 3.0]]


def test_columns_follow_the_start_of_their_step_whatever_the_selector():
    rollout = tree([[0, 0, 0], [0, 0, 1]])
    start = torch.tensor([[2, 0, 3], [0, 2, 3]])
    found = credit(rollout, [1.0, 4.0], steps=Steps(start, start, torch.ones(2, 3)))
    assert found.tolist() == [[-3.0, 0.0, 0.0], [0.0, 3.0, 0.0]]


def test_prompts_and_the_order_of_rows_do_not_mix():
    both = replace(tree([[0, 0], [0, 1], [0, 0], [0, 1]]), group_B=torch.tensor([4, 4, 2, 2]))
    assert credit(both, [1.0, 4.0, 7.0, 7.5]).tolist() == [[0, -3.0], [0, 3.0], [0, -0.5], [0, 0.5]]
    order = torch.tensor([2, 0, 3, 1])
    turned = take(TWO, order)
    straight = credit(TWO, [1.0, 3.0, 0.0, 5.0])
    assert torch.equal(credit(turned, [0.0, 1.0, 5.0, 3.0]), straight[order])


def test_equal_rewards_give_exactly_zero():
    three = tree([[0, 0], [0, 1], [0, 2], [3, 3], [3, 4], [3, 5]])
    assert not credit(three, [0.1] * 6).any()


def test_what_is_missing_is_said():
    rewards = inputs.rewards(torch.zeros(4))
    with pytest.raises(UsageError, match=r"none were chosen; add `selector: {name: edges}`"):
        TreeLoo()(rewards, None, None, TWO, 0)
    alone = replace(TWO, branch_BT=None)
    with pytest.raises(UsageError, match=r"use `sampler: \{name: tree"):
        TreeLoo()(rewards, None, inputs.every_step(alone), alone, 0)
