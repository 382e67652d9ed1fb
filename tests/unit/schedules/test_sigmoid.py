import math

import pytest
import torch

from dllmzoo.zoo import SCHEDULES

Sigmoid = SCHEDULES.get("sigmoid")


def logistic(x):
    return 1 / (1 + math.exp(-x))


def test_the_published_curve_is_the_default():
    # start -3, end 3: (sigmoid(6 t - 3) - sigmoid(-3)) / (sigmoid(3) - sigmoid(-3))
    for t in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0):
        expected = (logistic(6 * t - 3) - logistic(-3)) / (logistic(3) - logistic(-3))
        found = Sigmoid().mask_prob(torch.tensor(t, dtype=torch.float64)).item()
        assert found == pytest.approx(expected, abs=1e-12)


def test_it_is_symmetric_and_steepest_in_the_middle():
    t = torch.linspace(0, 1, 21, dtype=torch.float64)
    schedule = Sigmoid(slope=8.0)
    torch.testing.assert_close(
        schedule.mask_prob(t) + schedule.mask_prob(1 - t), torch.ones(21).double()
    )
    assert schedule.rate(t).argmax() == 10


def test_rate_is_the_slope():
    # at t = 1/2: k / (2 tanh(k / 2)) = 3 / (2 * .905148) = 1.657187
    assert Sigmoid().rate(torch.tensor(0.5)).item() == pytest.approx(1.657187, abs=1e-6)


def test_a_small_slope_is_linear_and_a_steep_one_finite():
    t = torch.linspace(0, 1, 11)
    torch.testing.assert_close(Sigmoid(slope=1e-3).mask_prob(t), t, atol=1e-6, rtol=0)
    steep = Sigmoid(slope=50.0)
    assert steep.mask_prob(t).isfinite().all() and steep.rate(t).isfinite().all()
    assert steep.mask_prob(t)[[0, -1]].tolist() == [0.0, 1.0]


def test_few_tokens_are_committed_at_both_ends():
    # 16 * (0, .1525, .5, .8475, 1) = 0, 2.44, 8, 13.56, 16; masked rounded down 13, 8, 2, 0
    assert Sigmoid().commits(16, 4) == [3, 5, 6, 2]
