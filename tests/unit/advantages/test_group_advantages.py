"""Group-relative and leave-one-out advantages: numbers by hand, abstentions, group ids."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.laws import inputs
from dllmzoo.zoo import ADVANTAGES
from tests.strategies import credit, played

GroupRelative, LeaveOneOut = ADVANTAGES.get("group_relative"), ADVANTAGES.get("leave_one_out")
BOTH = pytest.mark.parametrize("cls", [GroupRelative, LeaveOneOut])


def of(advantage, reward, G, counted=None):
    counted_B = None if counted is None else torch.tensor(counted)
    return credit(advantage, torch.tensor(reward), None, G, counted_B=counted_B).flatten().tolist()


def test_short_names_are_aliases():
    assert ADVANTAGES.get("grpo") is ADVANTAGES.get("mean") is GroupRelative
    assert ADVANTAGES.get("rloo") is ADVANTAGES.get("loo") is LeaveOneOut


def test_group_relative_subtracts_the_group_mean():
    # means 2 and 0.5
    assert of(GroupRelative(), [1.0, 3.0, 0.0, 1.0], 2) == [-1.0, 1.0, -0.5, 0.5]


def test_leave_one_out_subtracts_the_mean_of_the_others():
    # 1 - (2 + 6) / 2, 2 - (1 + 6) / 2, 6 - (1 + 2) / 2
    assert of(LeaveOneOut(), [1.0, 2.0, 6.0], 3) == [-3.0, -1.5, 4.5]


def test_leave_one_out_is_group_relative_times_g_over_g_minus_one():
    reward = [0.3, -1.2, 2.0, 0.7]
    expected = [4 / 3 * a for a in of(GroupRelative(), reward, 4)]
    assert of(LeaveOneOut(), reward, 4) == pytest.approx(expected)


def test_scaling_divides_by_the_sample_deviation():
    # mean 2, gaps -1 and 1, sample deviation sqrt(2 / 1): -1 / (1.414214 + 1e-4)
    expected = 1 / (2**0.5 + 1e-4)
    assert of(GroupRelative(scale_by_std=True), [1.0, 3.0], 2) == pytest.approx(
        [-expected, expected]
    )
    assert of(LeaveOneOut(scale_by_std=True), [1.0, 3.0], 2) == pytest.approx(
        [-2 * expected, 2 * expected]
    )


@BOTH
@pytest.mark.parametrize("scaled", [False, True])
def test_equal_rewards_give_exactly_zero(cls, scaled):
    assert of(cls(scale_by_std=scaled), [0.1] * 7, 7) == [0.0] * 7


@BOTH
def test_abstained_rows_are_out_of_the_mean_and_get_nothing(cls):
    kept = of(cls(), [1.0, 4.0], 2)
    found = of(cls(), [1.0, 100.0, 4.0], 3, counted=[True, False, True])
    assert found == [kept[0], 0.0, kept[1]]


@BOTH
@pytest.mark.parametrize("counted", [[True, False], [False, False]])
def test_a_group_with_fewer_than_two_counted_rows_gives_nothing(cls, counted):
    assert of(cls(), [3.0, 5.0], 2, counted=counted) == [0.0, 0.0]


@BOTH
def test_groups_are_told_by_their_number_not_by_their_place(cls):
    rollout = played([[1]] * 4, [[0]] * 4)
    mixed = replace(rollout, group_B=torch.tensor([9, -2, 9, -2]))
    found = cls()(inputs.rewards(torch.tensor([1.0, 0.0, 3.0, 1.0])), None, None, mixed, 0)
    blocks = replace(rollout, group_B=torch.tensor([0, 0, 1, 1]))
    straight = cls()(inputs.rewards(torch.tensor([1.0, 3.0, 0.0, 1.0])), None, None, blocks, 0)
    assert torch.equal(found[[0, 2, 1, 3]], straight)


@BOTH
def test_the_order_of_a_group_changes_no_bit(cls):
    reward_B = torch.tensor([0.1, 0.7, 0.2, 0.9, 0.3])
    order = torch.tensor([3, 0, 4, 1, 2])
    found = credit(cls(), reward_B[order], None, 5)
    assert torch.equal(found, credit(cls(), reward_B, None, 5)[order])


@BOTH
def test_is_float32_with_one_column(cls):
    found = credit(cls(), torch.zeros(4, dtype=torch.float64), None, 2)
    assert found.shape == (4, 1) and found.dtype == torch.float32
