"""The evidence upper bound: hand numbers, its offset for few views, and when it is a bound."""

import math
from dataclasses import replace

import pytest
import torch

from dllmzoo.likelihoods._bounds import bound_views
from dllmzoo.records import Key
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import played

Eubo = LIKELIHOODS.get("eubo")
KEY = Key(1, 0, "views")
NO_CREDIT = torch.zeros(1, 1)


def value(logprob_KN, hidden_KN, exponent):
    """Score and ratio of one answer whose slots are all valid, in float64."""
    N = len(hidden_KN[0])
    rollout = played([[1] * N], [[0] * N])
    score_BKL = torch.nn.functional.pad(torch.tensor([hidden_KN]).bool(), (1, 0))
    logprob_BKL = torch.nn.functional.pad(torch.tensor([logprob_KN]).double(), (1, 0))
    views = bound_views(score_BKL, score_BKL, rollout, 1.0)
    found = Eubo(exponent=exponent).pool(logprob_BKL * score_BKL, views, rollout, NO_CREDIT)
    return found.score_BU.item(), found.ratio_BU.item()


def test_alias():
    assert LIKELIHOODS.get("upper_bound") is Eubo


def test_a_slot_hidden_by_one_view_of_one_is_raised_by_the_logarithm_of_the_share():
    # one view hides 1 of 3 slots: U = 3 * (-2 - ln(1/3) / b), E = 3 * -2
    for b in (1.0, 1.5):
        score, ratio = value([[-2.0, 0.0, 0.0]], [[1, 0, 0]], b)
        assert score == pytest.approx(3 * (-2 + math.log(3) / b))
        assert ratio == pytest.approx(-6.0)


def test_a_slot_hidden_by_one_view_of_two_is_shifted_by_both_numbers():
    # views hide slot 1, and both: K m / n is 2 * 1/2 = 1 and 2 * 1 = 2
    # slot 2 is hidden by the second view alone: ln u_2 = b * -3 - ln 2
    score, _ = value([[-1.0, 0.0], [-1.0, -3.0]], [[1, 0], [1, 1]], 1.0)
    u_1 = math.exp(-1) / 1 + math.exp(-1) / 2
    assert score == pytest.approx(math.log(u_1) - 3 - math.log(2))


def test_the_value_may_be_positive():
    score, ratio = value([[-0.01, 0.0, 0.0]], [[1, 0, 0]], 1.0)
    assert score > 0 > ratio


def test_a_larger_exponent_makes_a_higher_bound():
    # both slots in both views, probabilities apart: no offset
    hidden, logprob = [[1, 1], [1, 1]], [[-1.0, -4.0], [-3.0, -1.0]]
    found = [value(logprob, hidden, b)[0] for b in (0.5, 1.0, 1.5, 2.0, 8.0)]
    assert found == sorted(found) and found[0] > value(logprob, hidden, 1.0)[1]


def test_a_small_exponent_is_no_bound_where_one_order_is_better_for_all_tokens():
    # n = 2; order (1, 2) gives both tokens 0.1, order (2, 1) both 0.9: p = (0.01 + 0.81) / 2
    # u_i is the mean of 0.1^b and 0.9^b, whichever token
    log_p = math.log((0.01 + 0.81) / 2)
    limit = {b: 2 / b * math.log((0.1**b + 0.9**b) / 2) for b in (1.0, 1.5, 2.0, 3.0)}
    assert limit[1.0] < log_p and limit[1.5] < log_p
    assert limit[2.0] == pytest.approx(log_p) and limit[3.0] > log_p

    # the pool gives these limits when its views are the mask law: {1}, {2} and twice {1, 2}
    # order (1, 2) predicts token 1 from {1, 2} hidden and token 2 from {2}
    low, high = math.log(0.1), math.log(0.9)
    logprob = [[high, 0.0], [0.0, low], [low, high], [low, high]]
    hidden = [[1, 0], [0, 1], [1, 1], [1, 1]]
    for b, expected in limit.items():
        assert value(logprob, hidden, b)[0] == pytest.approx(expected)


def test_the_score_is_the_upper_bound_for_either_sign():
    rollout = played([[1, 2, 3]], [[0, 1, 2]])
    part = Eubo(views=3)
    views = part.plan(rollout, None, KEY, 1)
    logprob_BKL = -torch.arange(12.0).view(1, 3, 4) * views.score_BKL
    good, bad = (
        part.pool(logprob_BKL, views, rollout, sign * torch.ones(1, 1)) for sign in (1, -1)
    )
    assert good.score_BU.item() == bad.score_BU.item() != good.ratio_BU.item()
    linear = (views.weight_BKL * logprob_BKL).sum().item()
    assert good.ratio_BU.item() == pytest.approx(linear)


def test_masks_are_random_subsets_unless_told():
    rollout = played([[1, 1, 5, 2]] * 50, [[0] * 4] * 50)
    views = Eubo(views=2).plan(rollout, None, KEY, 1)
    assert not views.hide_BKL[..., 0].any() and views.hide_BKL[..., 4].all()
    assert set(views.score_BKL.sum(2).flatten().tolist()) == {1, 2, 3}
    blocks = Eubo(masks="block_all", block_length=2, prefix_noise=0.0)
    hide_BKL = blocks.plan(rollout, None, KEY, 1).hide_BKL
    assert {tuple(row) for row in hide_BKL[..., 1:4].flatten(0, 1).int().tolist()} == {
        (1, 1, 1),
        (0, 0, 1),
    }


def test_an_empty_answer_is_worth_nothing():
    rollout = played([[1, 2]], [[0, 1]])
    rollout = replace(rollout, valid_BL=torch.zeros_like(rollout.valid_BL))
    views = Eubo().plan(rollout, None, KEY, 1)
    found = Eubo().pool(torch.zeros(1, 2, 3), views, rollout, NO_CREDIT)
    assert found.score_BU.item() == 0 and not views.live_BU.any()
