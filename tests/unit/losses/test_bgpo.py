"""BGPO: the two lines of its bound, clip and cap on the surrogate ratio, per view."""

import math

import pytest
import torch

from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

Bgpo = LOSSES.get("bgpo")
BARE = {"clip_low": None, "clip_high": None, "ratio_cap": None}


def of_gaps(loss, gap, advantage, **facts):
    """Value, gradient at the views' log-probs and metrics; `gap` is new - old in total nats."""
    new = torch.tensor(gap, dtype=torch.float64).requires_grad_()
    facts = {"canvas": 1} | facts
    value, metrics = loss(
        estimate(new), estimate(torch.zeros_like(new)), None, torch.tensor(advantage),
        units(*new.shape, **facts),
    )  # fmt: skip
    value.backward()
    return value.item(), new.grad, metrics


def test_is_linear_for_good_samples_and_exponential_for_bad_ones():
    # views with x = 0.5, -0.5: A = 2: -2 * (1.5 + 0.5) / 2 = -2 each way; mean over 4 views
    # A = -1: (e^0.5 + e^-0.5) = 1.648721 + 0.606531 = 2.255252
    # loss = (-2 * 1.5 - 2 * 0.5 + 2.255252) / 4 = -0.436187
    value, grad, _ = of_gaps(Bgpo(**BARE), [[0.5, -0.5]] * 2, [[2.0, 2.0], [-1.0, -1.0]])
    assert value == pytest.approx(-0.436187, abs=1e-6)
    assert grad[0].tolist() == pytest.approx([-0.5, -0.5])
    assert grad[1].tolist() == pytest.approx([math.exp(0.5) / 4, math.exp(-0.5) / 4])


def test_the_line_has_a_value_where_a_logarithm_has_none():
    # x = -3: 1 + x = -2, A = 1: loss 2, gradient -1
    value, grad, metrics = of_gaps(Bgpo(), [[-3.0]], [[1.0]])
    assert value == pytest.approx(2.0)
    assert grad.item() == pytest.approx(-1.0)
    assert metrics["ratio_clipped"].item() == pytest.approx(-2.0)
    assert metrics["ratio"].item() == pytest.approx(math.exp(-3))


def test_the_log_ratio_is_divided_by_the_canvas_unless_told_otherwise():
    # 4 nats, N = 8, 2 valid tokens: x = 0.5, 2, 4
    size = torch.tensor([[2.0]])
    for options, x in (({}, 0.5), ({"length_norm": "token"}, 2.0), ({"length_norm": "none"}, 4.0)):
        loss = Bgpo(**(BARE | options))
        value, _, _ = of_gaps(loss, [[4.0]], [[1.0]], size_BU=size, canvas=8)
        assert value == pytest.approx(-(1 + x))


def test_the_clip_acts_on_the_surrogate_ratio():
    # A > 0: 1 + x = 1.5 is held at 1.2, its log-ratio 0.19 (ratio 1.209) is not: 1.19
    # A < 0: e^-0.5 = 0.607 is held at 0.8
    value, grad, metrics = of_gaps(Bgpo(), [[0.5], [0.19], [-0.5]], [[1.0], [1.0], [-1.0]])
    assert value == pytest.approx((-1.2 - 1.19 + 0.8) / 3)
    assert grad.flatten().tolist() == pytest.approx([0.0, -1 / 3, 0.0])
    assert metrics["clip_high_fraction"].flatten().tolist() == [1.0, 0.0, 0.0]
    assert metrics["clip_low_fraction"].flatten().tolist() == [0.0, 0.0, 1.0]
    assert metrics["ratio_clipped"].flatten().tolist() == pytest.approx([1.2, 1.19, 0.8])


def test_the_dual_clip_bounds_bad_samples_at_three():
    # A = -1: e^5 = 148 counts as 3, without gradient; e^1 = 2.718 keeps its own
    value, grad, metrics = of_gaps(Bgpo(), [[5.0], [1.0]], [[-1.0], [-1.0]])
    assert value == pytest.approx((3 + math.e) / 2)
    assert grad.flatten().tolist() == pytest.approx([0.0, math.e / 2])
    assert metrics["ratio_clipped"].flatten().tolist() == pytest.approx([3.0, math.e])
    assert Bgpo().bounded_weight == 3.0 and Bgpo(ratio_cap=None).bounded_weight is None


def test_the_dual_clip_leaves_good_samples_alone():
    # A = 1, no clip: 1 + 4 = 5
    value, grad, _ = of_gaps(Bgpo(clip_high=None), [[4.0]], [[1.0]])
    assert value == pytest.approx(-5.0) and grad.item() == pytest.approx(-1.0)


def test_both_lines_are_below_the_gain_of_the_averaged_views():
    # A exp(mean x) >= A mean r: good samples by the tangent, bad ones by convexity
    gap = torch.linspace(-1, 1, 8).view(1, 8).tolist()
    for sign in (1.0, -1.0):
        value, _, _ = of_gaps(Bgpo(**BARE), gap, [[sign] * 8])
        assert -value <= sign * math.exp(sum(gap[0]) / 8) + 1e-12


@pytest.mark.parametrize("bounds", [{}, BARE])
def test_on_policy_it_is_the_policy_gradient_over_the_canvas(bounds):
    # 2 samples, 2 views, N = 4: -A / 4 / 4
    advantage = [[0.3, 0.3], [-0.7, -0.7]]
    _, grad, _ = of_gaps(Bgpo(**bounds), [[0.0, 0.0]] * 2, advantage, canvas=4)
    torch.testing.assert_close(grad, -torch.tensor(advantage).double() / 16)


def test_needs_the_old_policy_and_views():
    loss = Bgpo()
    assert loss.units == {"view"}
    assert loss.needs_old and not loss.needs_reference and not loss.needs_exact_kl
