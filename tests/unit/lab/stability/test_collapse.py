import math

import pytest

from dllmzoo.lab.stability.collapse import signs
from tests.unit.lab.stability.made import rows


def test_a_steady_run_does_not_collapse():
    assert signs(rows([0.2, 0.19, 0.25, 0.3]), "solved_rate", stopped=False) == {}


def test_three_low_evaluations_in_a_row_are_a_collapse_from_the_first_of_them():
    found = signs(rows([0.2, 0.09, 0.12, 0.09, 0.05, 0.01, 0.0]), "solved_rate", stopped=False)
    assert found == {"solved rate": 12}  # rounds 3, 4, 5; the one of round 1 was alone


def test_exactly_half_is_not_below_half():
    assert signs(rows([0.2, 0.1, 0.1, 0.1]), "solved_rate", stopped=False) == {}


def test_a_solved_rate_of_nothing_cannot_fall():
    assert signs(rows([0.0, 0.0, 0.0, 0.0]), "solved_rate", stopped=False) == {}


def test_two_low_evaluations_are_no_collapse():
    assert signs(rows([0.2, 0.01, 0.01, 0.2]), "solved_rate", stopped=False) == {}


def test_a_gradient_norm_above_a_thousand_times_the_first_is_a_collapse():
    # the first round's mean is 0.1; its largest 0.2; then 2 * 51 = 102 > 1e3 * 0.1
    found = signs(rows([0.2] * 4, [0.1, 49.0, 51.0]), "solved_rate", stopped=False)
    assert found == {"gradient": 12}


def test_a_round_without_a_gradient_is_not_the_first_value():
    found = signs(rows([0.2] * 4, [0.0, 0.1, 0.2]), "solved_rate", stopped=False)
    assert found == {}


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_number_that_is_not_finite_is_a_collapse(value):
    found = rows([0.2] * 4)
    found[2]["ratio_max"] = value
    assert signs(found, "solved_rate", stopped=False) == {"not finite": 8}


def test_a_refused_update_is_a_collapse_at_the_next_update():
    found = signs(rows([0.2] * 3), "solved_rate", stopped=True)
    assert found == {"not finite": 9}


def test_a_run_stopped_before_its_first_row_collapsed_at_once():
    assert signs([], "solved_rate", stopped=True) == {"not finite": 1}


def test_every_sign_is_told():
    found = signs(rows([0.2, 0.01, 0.01, 0.01], [0.1, 90, 1]), "solved_rate", stopped=True)
    assert found == {"not finite": 13, "gradient": 8, "solved rate": 4}


def test_rows_without_evaluation_are_passed_over():
    found = rows([0.2, 0.01, 0.2, 0.01, 0.2, 0.01])
    for row in found[2::2]:
        row["eval/solved_rate"] = None
    assert signs(found, "solved_rate", stopped=False) == {"solved rate": 4}
