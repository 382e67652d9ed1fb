import math

import pytest

from dllmzoo.lab.stability.measure import curves, figures, quantile
from tests.unit.lab.stability.made import rows


def test_figures_are_those_of_the_rows():
    found = figures(rows([0.2, 0.1, 0.3, 0.4, 0.2]), "solved_rate")
    assert (found["solved_first"], found["solved_last"], found["solved_low"]) == (0.2, 0.2, 0.1)
    assert found["solved_late"] == pytest.approx(0.3)  # after 12 and 16 of 16 updates
    assert found["reward_first"] == pytest.approx(0.51)  # a quarter of four rounds is one
    assert found["reward_last"] == pytest.approx(0.54)
    assert found["log_ratio_var"] == pytest.approx(7.5)  # (1 + 4 + 9 + 16) / 4
    assert (found["log_ratio_var_first"], found["log_ratio_var_last"]) == (1.0, 16.0)
    assert (found["grad_q50"], found["grad_max"], found["ratio_max"]) == (0.2, 0.2, 400.0)
    assert (found["kl"], found["updates"], found["seconds"]) == (0.5, 16, 8.0)


def test_what_a_loss_does_not_report_is_none():
    found = figures(rows([0.2, 0.2]), "solved_rate")
    assert found["clipped"] is None
    assert found["drift"] is None


def test_a_run_that_never_trained_has_figures():
    found = figures(rows([0.2]), "solved_rate")
    assert found["solved_first"] == 0.2
    assert found["grad_max"] is None
    assert figures([], "solved_rate")["updates"] == 0


def test_numbers_that_are_not_finite_are_left_out():
    found = rows([0.2, 0.2, 0.2])
    found[1]["ratio_max"] = math.inf
    assert figures(found, "solved_rate")["ratio_max"] == 200.0
    assert curves(found, "solved_rate")[1]["ratio_max"] is None


def test_a_quantile_is_the_value_of_the_nearest_rank():
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.9) == 4.0  # rank 2.7
    assert quantile([], 0.5) is None
