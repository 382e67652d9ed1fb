"""VESPO: the bump of the sequence's ratio by hand, its top, its extremes."""

import math

import pytest
import torch

from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

Vespo = LOSSES.get("vespo")


def of_gaps(loss, gap, advantage, score=-1.0, **facts):
    """Value, gradient at the log-probs and metrics; `gap` is new - old in total nats."""
    gap_BU = torch.tensor(gap)
    new = torch.full_like(gap_BU, score).requires_grad_()
    value, metrics = loss(
        estimate(new), estimate(new.detach() - gap_BU), None, torch.tensor(advantage),
        units(*new.shape, **facts),
    )  # fmt: skip
    value.backward()
    return value.item(), new.grad, metrics


def test_the_weight_by_hand():
    # w = 2.  A > 0: exp(3 + 2 ln 2 - 3 * 2) = 4 e^-3 = 0.199148
    #         A < 0: exp(2 + 3 ln 2 - 2 * 2) = 8 e^-2 = 1.082682
    # log-probs -1: loss = -(0.199148 * 1 * -1 + 1.082682 * -1 * -1) / 2 = -0.441767
    loss = Vespo(normaliser="unit")
    value, grad, metrics = of_gaps(loss, [[math.log(2)], [math.log(2)]], [[1.0], [-1.0]])
    assert metrics["weight"].flatten().tolist() == pytest.approx([0.199148, 1.082682], abs=1e-6)
    assert value == pytest.approx(-0.441767, abs=1e-6)
    assert grad.flatten().tolist() == pytest.approx([-0.099574, 0.541341], abs=1e-6)


def test_the_weight_at_ratio_one_is_exactly_one():
    for options in ({}, {"power_pos": 0.7, "decay_pos": 1.3, "power_neg": 5.0, "decay_neg": 0.1}):
        _, grad, metrics = of_gaps(
            Vespo(normaliser="unit", **options), [[0.0], [0.0]], [[1.0], [-1.0]]
        )
        assert metrics["weight"].flatten().tolist() == [1.0, 1.0]
        assert grad.flatten().tolist() == pytest.approx([-0.5, 0.5])


def test_the_ratio_is_summed_over_the_sequence():
    # ln 2 + ln 1.5 - ln 3 = 0: w = 1 at all three units, which share the token mean
    gap = [[math.log(2), math.log(1.5), -math.log(3)]]
    _, grad, metrics = of_gaps(Vespo(), gap, [[1.0, 1.0, 1.0]])
    assert metrics["ratio"].flatten().tolist() == pytest.approx([1.0] * 3, rel=1e-6)
    assert grad.flatten().tolist() == pytest.approx([-1 / 3] * 3, rel=1e-5)


def test_dead_units_are_out_of_the_sum():
    live = torch.tensor([[True, False]])
    _, grad, metrics = of_gaps(Vespo(), [[0.0, 9.0]], [[1.0, 1.0]], live_BU=live)
    assert metrics["weight"].flatten().tolist() == [1.0, 0.0]
    assert grad.flatten().tolist() == [-1.0, 0.0]


def test_the_bound_is_the_top_of_the_higher_bump():
    # A >= 0: w = 2/3: exp(3 - 2) * (2/3)^2 = 1.208125     A < 0: w = 3/2: e^-1 * 1.5^3 = 1.241593
    assert Vespo().bounded_weight == pytest.approx(1.241593, abs=1e-6)
    w = torch.linspace(0.01, 5, 5000).log().view(-1, 1)
    for sign, top in ((1.0, 1.208125), (-1.0, 1.241593)):
        _, _, metrics = of_gaps(Vespo(), w.tolist(), [[sign]] * 5000)
        assert metrics["weight"].max().item() == pytest.approx(top, abs=1e-5)
    # no power: the weight falls from e^lambda at w = 0
    flat = Vespo(power_pos=0.0, decay_pos=1.0, power_neg=0.0, decay_neg=0.5)
    assert flat.bounded_weight == pytest.approx(math.e)


@pytest.mark.parametrize("gap", [1e4, -1e4, 88.0, -88.0])
def test_extreme_ratios_weigh_nothing(gap):
    value, grad, metrics = of_gaps(Vespo(), [[gap], [0.0]], [[-1.0], [-1.0]])
    assert math.isfinite(value)
    assert grad[0].item() == 0.0 and grad[1].item() == pytest.approx(0.5)
    assert all(metric.isfinite().all() for metric in metrics.values())


def test_the_effective_sample_size_is_that_of_the_weights():
    # weights 0 and 1 of a group of two
    _, _, metrics = of_gaps(Vespo(), [[1e4], [0.0]], [[1.0], [1.0]])
    assert metrics["ess_share"].flatten().tolist() == pytest.approx([0.5, 0.5])
