"""pass@k without bias, and intervals that treat answers to one problem as alike."""

from itertools import combinations
from math import comb

import pytest

from dllmzoo.training.pass_at_k import interval_over_problems, pass_at_k, powers_of_two, wilson


def test_pass_at_k_by_hand():
    # 5 answers, 2 right: of the 10 pairs, 3 hold none of the right ones; of the 10 triples, 1
    assert pass_at_k(5, 2, 1) == 0.4
    assert pass_at_k(5, 2, 2) == 0.7
    assert pass_at_k(5, 2, 3) == 0.9
    assert pass_at_k(5, 2, 4) == pass_at_k(5, 2, 5) == 1.0  # only 3 are wrong
    assert pass_at_k(8, 0, 8) == 0.0 and pass_at_k(1, 1, 1) == 1.0


@pytest.mark.parametrize("num", [1, 4, 6])
def test_it_is_the_share_of_subsets_that_hold_a_right_answer(num):
    for correct in range(num + 1):
        for k in range(1, num + 1):
            subsets = list(combinations(range(num), k))
            share = sum(min(subset) < correct for subset in subsets) / len(subsets)
            assert pass_at_k(num, correct, k) == pytest.approx(share, abs=1e-15)


def test_its_mean_over_draws_is_the_chance_that_one_of_k_is_right():
    rate, num, k = 0.3, 7, 3
    weight = [comb(num, c) * rate**c * (1 - rate) ** (num - c) for c in range(num + 1)]
    mean = sum(w * pass_at_k(num, c, k) for c, w in enumerate(weight))
    assert mean == pytest.approx(1 - (1 - rate) ** k, abs=1e-12)


def test_many_answers_cost_no_accuracy():
    # one right of a million: 1 - C(n - 1, k) / C(n, k) = k / n
    assert pass_at_k(10**6, 1, 1000) == 0.001
    assert pass_at_k(4000, 1, 1) == 1 / 4000


@pytest.mark.parametrize("numbers", [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, 5), (0, 0, 1)])
def test_numbers_that_do_not_fit_are_refused(numbers):
    with pytest.raises(ValueError, match="has no meaning"):
        pass_at_k(*numbers)


def test_the_k_that_are_reported():
    assert [powers_of_two(n) for n in (1, 2, 3, 8, 11)] == [
        [1], [1, 2], [1, 2], [1, 2, 4, 8], [1, 2, 4, 8]
    ]  # fmt: skip


def test_one_answer_each_gives_wilsons_interval():
    assert interval_over_problems([1.0, 0.0, 0.0, 0.0], 1) == wilson(1, 4)


def test_answers_that_all_agree_inside_a_problem_count_once():
    # 4 problems, 8 answers each, all alike: as wide as one answer each
    assert interval_over_problems([1.0, 0.0, 0.0, 0.0], 8) == pytest.approx(wilson(1, 4))


def test_the_effective_number_of_answers_by_hand():
    # mean 1/2, squares around it 2 * (1/4)^2 = 1/8, /1 /2 = variance 1/16 of the mean
    # (1/2 * 1/2) / (1/16) = 4 answers, between 2 problems and 2 * 8 draws
    assert interval_over_problems([0.25, 0.75], 8) == pytest.approx(wilson(2, 4))


def test_problems_of_one_difficulty_count_every_draw():
    assert interval_over_problems([0.5, 0.5, 0.5], 4) == pytest.approx(wilson(6, 12))


def test_unanimous_problems_leave_a_doubt():
    assert interval_over_problems([1.0] * 30, 8) == pytest.approx(wilson(30, 30))
    assert interval_over_problems([], 8) == (0.0, 1.0)
