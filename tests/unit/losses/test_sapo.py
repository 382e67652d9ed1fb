"""SAPO: the sigmoid gate by hand, its slope at 1, its two temperatures, its bound."""

import math

import pytest
import torch

from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

Sapo = LOSSES.get("sapo")


def of_ratios(loss, ratio, advantage, **facts):
    """Value, gradient at the log-probs and metrics."""
    new = torch.tensor(ratio, dtype=torch.float64).log().requires_grad_()
    zero = estimate(torch.zeros_like(new))
    value, metrics = loss(
        estimate(new), zero, zero, torch.tensor(advantage), units(*new.shape, **facts)
    )
    value.backward()
    return value.item(), new.grad, metrics


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def test_the_gate_by_hand():
    # ratio 2, A = 1, tau 1: -4 * sigmoid(1) = -4 * 0.731059 = -2.924234
    # gradient: -4 * 0.731059 * 0.268941 * 2 = -1.572896
    value, grad, metrics = of_ratios(Sapo(), [[2.0]], [[1.0]])
    assert value == pytest.approx(-2.924234, abs=1e-6)
    assert grad.item() == pytest.approx(-1.572896, abs=1e-6)
    assert metrics["ratio"].item() == pytest.approx(2.0)


def test_bad_samples_have_a_temperature_of_their_own():
    # ratio 2, A = -1, tau 1.05: (4 / 1.05) * sigmoid(1.05)
    value, grad, _ = of_ratios(Sapo(), [[2.0]], [[-1.0]])
    gate = sigmoid(1.05)
    assert value == pytest.approx(4 / 1.05 * gate)
    assert grad.item() == pytest.approx(4 * gate * (1 - gate) * 2)
    value, _, _ = of_ratios(Sapo(tau_pos=3.0, tau_neg=2.0), [[2.0]], [[-1.0]])
    assert value == pytest.approx(2 * sigmoid(2.0))


@pytest.mark.parametrize("tau", [0.1, 1.0, 7.0])
def test_the_slope_at_ratio_one_is_one(tau):
    loss = Sapo(tau_pos=tau, tau_neg=tau, normaliser="unit")
    _, grad, _ = of_ratios(loss, [[1.0], [1.0]], [[0.3], [-0.7]])
    assert grad.flatten().tolist() == pytest.approx([-0.15, 0.35], rel=1e-6)


def test_the_default_is_a_mean_of_token_means():
    # sequences of 1 and 2 live units: shares 1/2, 1/4, 1/4
    live = torch.tensor([[True, False], [True, True]])
    _, grad, _ = of_ratios(Sapo(), [[1.0, 1.0]] * 2, [[1.0, 1.0]] * 2, live_BU=live)
    assert grad.flatten().tolist() == pytest.approx([-0.5, 0.0, -0.25, -0.25])


def test_no_corner_is_open():
    # far ratios of either sign of A: the gradient has faded
    _, grad, _ = of_ratios(Sapo(), [[1e5], [1e5], [1e-5]], [[1.0], [-1.0], [-1.0]])
    assert grad.abs().max() < 1e-4


@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0, 4.0])
def test_the_claimed_bound_holds_and_is_not_far(tau):
    loss = Sapo(tau_pos=tau, tau_neg=tau, normaliser="group")
    ratio = torch.linspace(0.01, 200, 20000).view(-1, 1).tolist()
    _, grad, _ = of_ratios(loss, ratio, [[1.0]] * 20000)
    top = grad.abs().max().item()
    assert 0.6 * loss.bounded_weight < top <= loss.bounded_weight


def test_a_sequence_ratio_and_a_kl_can_be_had():
    # ln 4 over 2 tokens: ratio 2 at both units, mean of both
    loss = Sapo(ratio_level="sequence", length_norm="token", kl="k1", kl_coef=1.0)
    assert loss.needs_reference and loss.needs_old
    value, _, metrics = of_ratios(loss, [[4.0, 1.0]], [[1.0, 1.0]])
    assert value == pytest.approx(-4 * sigmoid(1.0) + math.log(4) / 2)
    assert metrics["log_ratio"].flatten().tolist() == pytest.approx([math.log(2)] * 2)
