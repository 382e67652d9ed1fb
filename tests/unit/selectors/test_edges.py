from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.records import take
from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout

Edges = SELECTORS.get("edges")

# two children of the root up to step 1, two grandchildren each from step 2 on; T = 4
REVEAL = [[0, 1, 2, 3], [0, 1, 3, 3], [1, 0, 2, 3], [1, 0, 3, 2]]
BRANCH = [[0, 0, 0, 0], [0, 0, 1, 1], [2, 2, 2, 2], [2, 2, 3, 3]]


def tree(branch=BRANCH, reveal=REVEAL, sample=(0, 1, 2, 3)):
    played = rollout(reveal, [[1.0] * 4] * 4, len(branch[0]))
    return replace(played, branch_BT=torch.tensor(branch), sample_B=torch.tensor(sample))


def test_paper_name_is_an_alias():
    assert SELECTORS.get("tree_edges") is Edges
    assert Edges().needs_branches


def test_column_d_is_the_span_of_depth_d_and_counts_in_the_first_sharer():
    steps = Edges()(tree(), KEY)
    assert steps.start_BK.tolist() == [[0, 2]] * 4
    assert steps.stop_BK.tolist() == [[2, 4]] * 4
    assert steps.weight_BK.tolist() == [[1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [0.0, 1.0]]


def test_branches_may_be_numbered_in_any_way():
    numbered = [[7, 7, 1, 1], [7, 7, 5, 5], [3, 3, 9, 9], [3, 3, 4, 4]]
    steps, expected = Edges()(tree(numbered), KEY), Edges()(tree(), KEY)
    assert torch.equal(steps.start_BK, expected.start_BK)
    assert torch.equal(steps.weight_BK, expected.weight_BK)


def test_the_smallest_sample_stands_for_all_wherever_its_row_is():
    steps = Edges()(tree(sample=(3, 2, 0, 1)), KEY)
    assert steps.weight_BK[:, 0].tolist() == [0.0, 1.0, 1.0, 0.0]
    order = torch.tensor([2, 0, 3, 1])
    turned = Edges()(take(tree(), order), KEY)
    assert torch.equal(turned.weight_BK, Edges()(tree(), KEY).weight_BK[order])


def test_equal_numbers_of_other_prompts_are_not_shared():
    apart = replace(tree([[0] * 4] * 4), group_B=torch.tensor([0, 1, 2, 3]))
    steps = Edges()(apart, KEY)
    assert steps.start_BK.tolist() == [[0]] * 4 and steps.stop_BK.tolist() == [[4]] * 4
    assert (steps.weight_BK == 1).all()


def test_a_common_trunk_is_an_edge_and_a_level_of_one_child_is_none():
    # one trunk for step 0; children from step 1; a level of single children; leaves at step 3
    branch = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 2, 2, 2], [0, 2, 2, 3]]
    reveal = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 1, 3], [0, 2, 1, 3]]
    steps = Edges()(tree(branch, reveal), KEY)
    assert steps.start_BK.tolist() == [[0, 1, 3]] * 4
    assert steps.weight_BK.tolist() == [[1, 1, 1], [0, 0, 1], [0, 1, 1], [0, 0, 1]]


def test_an_edge_that_committed_nothing_weighs_nothing():
    # the first two answers are finished at step 1, though they part at step 2
    reveal = [[0, 1, 1, 1], [0, 1, 1, 1], *REVEAL[2:]]
    steps = Edges()(tree(reveal=reveal), KEY)
    assert steps.weight_BK.tolist() == [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def test_a_rollout_without_branches_is_refused():
    with pytest.raises(UsageError, match=r"no samples share denoising steps; use .*tree"):
        Edges()(rollout([[0]], [[1.0]], 1), KEY)


def test_a_tree_costs_two_views_a_sample_at_most():
    assert [Edges().num_selected(T) for T in (1, 2, 128)] == [1, 2, 2]
