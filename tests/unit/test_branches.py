from dataclasses import replace

import pytest
import torch

from dllmzoo.branches import edge_starts, first_sharers, num_sharers
from dllmzoo.errors import UsageError
from tests.strategies import played

# three answers: all share step 0, the last two step 1, nobody step 2
BRANCH = torch.tensor([[5, 1, 1], [5, 8, 8], [5, 8, 2]])
TREE = replace(played([[0, 0, 0]] * 3, [[0, 1, 2]] * 3, group_size=3), branch_BT=BRANCH)


def test_the_smallest_sample_stands_for_all_that_share_a_step():
    assert first_sharers(TREE).tolist() == [[0, 0, 0], [0, 1, 1], [0, 1, 2]]
    turned = replace(TREE, sample_B=torch.tensor([9, 7, 4]))
    assert first_sharers(turned).tolist() == [[2, 0, 0], [2, 2, 1], [2, 2, 2]]


def test_prompts_share_nothing():
    apart = replace(TREE, group_B=torch.tensor([1, 0, 1]))
    assert first_sharers(apart)[:, 0].tolist() == [0, 1, 0]


def test_sharers_are_counted_and_edges_start_where_they_get_fewer():
    sharer_BT = torch.tensor([[0, 0, 0], [0, 1, 1], [0, 1, 2]])
    assert num_sharers(sharer_BT).tolist() == [[3, 1, 1], [3, 2, 1], [3, 2, 1]]
    assert edge_starts(sharer_BT).tolist() == [
        [True, True, False], [True, True, True], [True, True, True],
    ]  # fmt: skip


def test_answers_without_a_tree_are_refused():
    with pytest.raises(UsageError, match="no samples share denoising steps"):
        first_sharers(replace(TREE, branch_BT=None))
