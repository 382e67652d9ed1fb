"""Signed softmax weights, by hand."""

import math

import pytest
import torch

from dllmzoo.zoo import ADVANTAGES
from tests.strategies import credit

Wd1 = ADVANTAGES.get("wd1")


def of(advantage, reward, G, counted=None):
    counted_B = None if counted is None else torch.tensor(counted)
    return credit(advantage, torch.tensor(reward), None, G, counted_B=counted_B).flatten().tolist()


def test_good_answers_gain_what_bad_ones_lose():
    # A = -0.5, 0.5: softmax 1 / (1 + e) and e / (1 + e), opposite the other way round
    gain = (math.e - 1) / (math.e + 1)
    assert of(Wd1(), [0.0, 1.0], 2) == pytest.approx([-gain, gain])


def test_three_answers():
    # exp(A) ~ 1, 2, 4 and exp(-A) ~ 4, 2, 1: 1/7 - 4/7, 0, 4/7 - 1/7
    reward = [0.0, math.log(2), math.log(4)]
    assert of(Wd1(), reward, 3) == pytest.approx([-3 / 7, 0.0, 3 / 7], abs=1e-7)
    assert of(Wd1(positive_only=True), reward, 3) == pytest.approx([1 / 7, 2 / 7, 4 / 7])


def test_temperature_divides_the_advantage():
    reward = [0.0, 2 * math.log(2), 2 * math.log(4)]
    assert of(Wd1(temperature=2.0), reward, 3) == pytest.approx([-3 / 7, 0.0, 3 / 7], abs=1e-7)


@pytest.mark.parametrize("G", [2, 3, 7])
def test_equal_rewards_give_exactly_zero(G):
    assert of(Wd1(), [0.1] * G, G) == [0.0] * G
    assert of(Wd1(positive_only=True), [0.1] * G, G) == pytest.approx([1 / G] * G)


def test_large_rewards_saturate():
    assert of(Wd1(temperature=0.01), [0.0, 1e3, 1e3], 3) == pytest.approx([-1.0, 0.5, 0.5])


def test_the_softmax_is_over_the_group():
    both = of(Wd1(), [0.0, 1.0, 5.0, 2.0], 2)
    assert both == of(Wd1(), [0.0, 1.0], 2) + of(Wd1(), [5.0, 2.0], 2)


def test_abstained_rows_are_left_out():
    kept = of(Wd1(), [0.0, 1.0], 2)
    assert of(Wd1(), [0.0, 9.0, 1.0], 3, [True, False, True]) == [kept[0], 0.0, kept[1]]


@pytest.mark.parametrize("positive_only", [False, True])
@pytest.mark.parametrize("counted", [[True, False], [False, False]])
def test_a_group_with_fewer_than_two_counted_rows_gives_nothing(positive_only, counted):
    assert of(Wd1(positive_only=positive_only), [3.0, 5.0], 2, counted) == [0.0, 0.0]


def test_the_temperature_is_above_zero():
    with pytest.raises(ValueError, match="temperature"):
        Wd1(temperature=0.0)
