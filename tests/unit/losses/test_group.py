"""Sums, softmaxes and effective sample sizes over live units that belong together."""

import math

import pytest
import torch

from dllmzoo.losses._group import count_by, ess_share, group_index, softmax_by, sum_by
from tests.strategies import units

LIVE = torch.tensor([[True, True], [True, False], [True, True], [False, False]])
FACTS = units(4, 2, group_size=2, live_BU=LIVE)
"""Two groups of two rows: three live units, and two."""


def test_groups_are_counted_from_nought_whatever_their_numbers():
    odd = units(3)
    odd = type(odd)(**{**vars(odd), "group_B": torch.tensor([9, 4, 9])})
    assert group_index(odd).tolist() == [[1], [0], [1]]


def test_sums_and_counts_leave_dead_units_out():
    value = torch.tensor([[1.0, 2.0], [4.0, math.nan], [8.0, 16.0], [math.nan, math.nan]])
    assert sum_by(group_index(FACTS), value, FACTS)[:, 0].tolist() == [7.0, 7.0, 24.0, 24.0]
    assert count_by(group_index(FACTS), FACTS)[:, 0].tolist() == [3.0, 3.0, 2.0, 2.0]


def test_a_softmax_adds_up_to_one_in_each_group():
    # logs 0, ln 2, ln 5: 1/8, 2/8, 5/8; logs 1e4 and -1e4: 1 and 0
    log = torch.tensor([[0.0, math.log(2)], [math.log(5), 99.0], [1e4, -1e4], [0.0, 0.0]])
    share = softmax_by(group_index(FACTS), log, FACTS)
    assert share[:2].flatten().tolist() == pytest.approx([0.125, 0.25, 0.625, 0.0])
    assert share[2:].flatten().tolist() == [1.0, 0.0, 0.0, 0.0]


def test_nothing_but_minus_infinity_has_no_share():
    share = softmax_by(group_index(FACTS), torch.full((4, 2), -math.inf), FACTS)
    assert not share.any()
    assert not ess_share(share, FACTS).any()


def test_the_sample_size_is_whole_for_equal_shares_and_one_for_a_single_one():
    share = torch.tensor([[1 / 3, 1 / 3], [1 / 3, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert ess_share(share, FACTS)[:, 0].tolist() == pytest.approx([1.0, 1.0, 0.5, 0.5])
