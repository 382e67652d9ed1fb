"""Intervals, verdicts and first crossings, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllmzoo.lab.statistics import (
    Mean,
    between,
    first_reach,
    mean_interval,
    pairs,
    t_quantile,
    verdict,
)


def test_the_interval_is_students():
    # mean 0.4, deviation 0.1, three seeds: 4.3027 * 0.1 / sqrt(3) = 0.2484
    found = mean_interval([0.3, 0.4, 0.5])
    assert found.value == pytest.approx(0.4)
    assert found.high - found.value == pytest.approx(0.2484, abs=1e-4)
    assert found.value - found.low == pytest.approx(0.2484, abs=1e-4)
    assert found.number == 3


def test_one_seed_has_no_interval_and_none_no_mean():
    assert mean_interval([0.7]) == Mean(0.7, None, None, 1)
    assert math.isnan(mean_interval([]).value) and mean_interval([]).number == 0
    assert between(mean_interval([0.7])) == ""
    assert between(Mean(0.5, 0.25, 0.75, 2)) == "0.250 to 0.750"


@pytest.mark.parametrize(
    ("freedom", "value"),
    [(1, 12.7062), (2, 4.3027), (30, 2.0423), (31, 2.0395), (40, 2.0211), (120, 1.9799)],
)
def test_quantiles_are_those_of_the_tables(freedom, value):
    assert t_quantile(freedom) == pytest.approx(value, abs=1e-4)


@given(st.integers(1, 500))
def test_quantiles_fall_to_the_normal_one(freedom):
    assert t_quantile(freedom) > t_quantile(freedom + 1) > 1.959964


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.01, 0.2, "higher"), (-0.2, -0.01, "lower"), (-0.1, 0.1, "not told apart"),
     (0.0, 0.2, "not told apart"), (None, None, "not told apart")],
)  # fmt: skip
def test_methods_are_told_apart_where_the_interval_leaves_out_zero(low, high, said):
    assert verdict(Mean(0.1, low, high, 3)) == said


def test_pairs_are_compared_seed_by_seed():
    # differences a - b: 0.1, 0.1, 0.1: the seeds' own spread of 0.3 drops out
    finals = {"a": {0: 0.2, 1: 0.5, 2: 0.8}, "b": {0: 0.1, 1: 0.4, 2: 0.7}, "c": {5: 0.3}}
    (pair,) = pairs(finals)
    assert (pair.one, pair.other, pair.verdict) == ("a", "b", "higher")
    assert pair.difference.value == pytest.approx(0.1)
    assert pair.difference.low == pytest.approx(0.1)


def test_three_methods_are_three_pairs():
    finals = {name: {0: 0.1, 1: 0.2} for name in "abc"}
    assert [(p.one, p.other) for p in pairs(finals)] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_the_first_evaluation_at_the_target_counts_whatever_comes_later():
    assert first_reach([0.1, 0.4, 0.2, 0.5], 0.4) == 1
    assert first_reach([0.5, 0.1], 0.4) == 0
    assert first_reach([0.1, 0.2], 0.4) is None
