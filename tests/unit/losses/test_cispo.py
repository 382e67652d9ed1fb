"""CISPO: capped constants as weights, by hand; every unit keeps its gradient."""

import math

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

Cispo = LOSSES.get("cispo")


def of_ratios(loss, ratio, advantage, score=-1.0, **facts):
    """Value, gradient at the log-probs and metrics; each log-prob is `score` nats now."""
    log_BU = torch.tensor(ratio, dtype=torch.float64).log()
    new = torch.full_like(log_BU, score).requires_grad_()
    old = new.detach() - log_BU
    value, metrics = loss(
        estimate(new),
        estimate(old),
        estimate(old),
        torch.tensor(advantage),
        units(*new.shape, **facts),
    )
    value.backward()
    return value.item(), new.grad, metrics


def test_weights_are_ratios_up_to_the_absolute_cap():
    # cap 5: weights 2, 0.5, 5 for ratios 2, 0.5, 100; log-probs -1, advantages 1, -1, -1
    # loss = -(2 * 1 * -1 + 0.5 * -1 * -1 + 5 * -1 * -1) / 3 = -(-2 + 0.5 + 5) / 3 = -3.5 / 3
    loss = Cispo(normaliser="unit")
    value, grad, metrics = of_ratios(loss, [[2.0], [0.5], [100.0]], [[1.0], [-1.0], [-1.0]])
    assert value == pytest.approx(-3.5 / 3)
    assert grad.flatten().tolist() == pytest.approx([-2 / 3, 0.5 / 3, 5 / 3])
    assert metrics["weight"].flatten().tolist() == pytest.approx([2.0, 0.5, 5.0])
    assert metrics["ratio_clipped"].flatten().tolist() == pytest.approx([2.0, 0.5, 5.0])
    assert metrics["ratio"].flatten().tolist() == pytest.approx([2.0, 0.5, 100.0])
    assert metrics["clip_fraction"].flatten().tolist() == [0.0, 0.0, 1.0]
    assert metrics["clip_high_fraction"].flatten().tolist() == [0.0, 0.0, 1.0]
    assert not metrics["clip_low_fraction"].any()
    # shares 2, 0.5, 5 of 7.5: 7.5^2 / (4 + 0.25 + 25) / 3
    assert metrics["ess_share"][0].item() == pytest.approx(56.25 / 29.25 / 3)


def test_the_cap_is_no_distance_from_one():
    _, grad, _ = of_ratios(Cispo(cap=1.0, normaliser="unit"), [[1.5]], [[1.0]])
    assert grad.item() == pytest.approx(-1.0)
    assert Cispo(cap=2.0).bounded_weight == 2.0


def test_without_a_cap_the_weight_is_the_ratio_and_stays_finite():
    loss = Cispo(cap=None, normaliser="unit")
    assert loss.bounded_weight is None
    _, grad, _ = of_ratios(loss, [[100.0]], [[1.0]])
    assert grad.item() == pytest.approx(-100.0)
    new = torch.tensor([[-1.0]], requires_grad=True)
    value, _ = loss(estimate(new), estimate([-1e4]), None, torch.ones(1, 1), units(1))
    value.backward()
    assert value.isfinite() and new.grad.isfinite().all()


def test_a_sequence_ratio_weighs_all_units_alike():
    # log-ratios ln 4 and 0, mean over 2 tokens ln 2: weight 2 at both, token mean of 2 tokens
    loss = Cispo(ratio_level="sequence", length_norm="token")
    value, grad, _ = of_ratios(loss, [[4.0, 1.0]], [[1.0, 1.0]])
    assert value == pytest.approx(2.0)
    assert grad.tolist() == [pytest.approx([-1.0, -1.0])]


def test_length_norm_divides_the_ratio_and_the_score():
    # ln 16 over 2 tokens: ratio 4; gradient of the total -4 / 2.   N = 4: ratio 2, gradient -2 / 4
    size = torch.tensor([[2.0]])
    for length_norm, expected in (("token", -2.0), ("canvas", -0.5), ("none", -16.0)):
        loss = Cispo(cap=None, length_norm=length_norm, normaliser="unit")
        _, grad, _ = of_ratios(loss, [[16.0]], [[1.0]], size_BU=size, canvas=4)
        assert grad.item() == pytest.approx(expected)


def test_on_policy_it_is_the_policy_gradient_whatever_the_settings():
    advantage = [[0.3, -0.7], [1.0, 0.2]]
    for level in ("unit", "sequence"):
        for norm in ("none", "token", "canvas"):
            _, grad, _ = of_ratios(
                Cispo(ratio_level=level, length_norm=norm), [[1.0, 1.0]] * 2, advantage, canvas=1
            )
            torch.testing.assert_close(grad, -torch.tensor(advantage).double() / 4)


def test_a_kl_can_be_added():
    # gap ln 2, k2 = (ln 2)^2 / 2; advantage 0
    loss = Cispo(kl="k2", kl_coef=1.0, normaliser="unit")
    assert loss.needs_reference
    value, _, metrics = of_ratios(loss, [[2.0]], [[0.0]])
    assert value == pytest.approx(math.log(2) ** 2 / 2)
    assert metrics["kl"].item() == pytest.approx(math.log(2) ** 2 / 2)
    assert not Cispo().needs_reference


def test_dead_units_pass_nothing_on_even_if_they_are_nan():
    new = torch.tensor([[-1.0, math.nan]], requires_grad=True)
    nan = torch.tensor([[-1.0, math.nan]])
    live = torch.tensor([[True, False]])
    value, _ = Cispo(normaliser="unit")(
        estimate(new),
        estimate(nan),
        None,
        torch.tensor([[1.0, math.nan]]),
        units(1, 2, live_BU=live),
    )
    value.backward()
    assert value.item() == pytest.approx(1.0)
    assert new.grad.tolist() == [[-1.0, 0.0]]


def test_old_log_probs_are_needed_and_a_cap_below_one_is_refused():
    assert Cispo().needs_old
    with pytest.raises(UsageError, match="old policy"):
        Cispo()(estimate([0.0]), None, None, torch.ones(1, 1), units(1))
    with pytest.raises(ValidationError):
        Cispo(cap=0.5)
