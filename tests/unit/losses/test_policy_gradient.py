"""Policy gradient: value, gradient, normalisers and the optional KL."""

import math

import pytest
import torch

from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

PolicyGradient = LOSSES.get("policy_gradient")


def test_paper_name_is_an_alias():
    assert LOSSES.get("reinforce") is PolicyGradient


def test_needs_neither_old_nor_reference_by_default():
    loss = PolicyGradient()
    assert not (loss.needs_old or loss.needs_reference or loss.needs_exact_kl)
    assert loss.bounded_weight == 1.0


def test_is_minus_advantage_times_log_prob():
    # sizes 1 and 3: -(2 * -1.5 + -1 * -4) / 4 = -(-3 + 4) / 4 = -0.25
    logprob = torch.tensor([[-1.5], [-4.0]], requires_grad=True)
    loss, metrics = PolicyGradient()(
        estimate(logprob), None, None, torch.tensor([[2.0], [-1.0]]),
        units(2, size_BU=torch.tensor([[1.0], [3.0]])),
    )  # fmt: skip
    loss.backward()
    assert loss.item() == pytest.approx(-0.25)
    assert logprob.grad.flatten().tolist() == pytest.approx([-0.5, 0.25])
    assert metrics == {}


def test_length_norm_divides_the_log_prob():
    # -4 nats over 2 tokens, N = 8
    facts = units(1, size_BU=torch.tensor([[2.0]]), canvas=8)
    for length_norm, expected in (("none", 4.0), ("token", 2.0), ("canvas", 0.5)):
        loss = PolicyGradient(length_norm=length_norm, normaliser="unit")
        value, _ = loss(estimate([-4.0]), None, None, torch.ones(1, 1), facts)
        assert value.item() == pytest.approx(expected)


def test_a_kl_can_be_added():
    # gap 2: k2 = 2, weight 0.5
    loss = PolicyGradient(kl="k2", kl_coef=0.5, normaliser="unit")
    assert loss.needs_reference and not loss.needs_old
    value, metrics = loss(estimate([2.0]), None, estimate([0.0]), torch.zeros(1, 1), units(1))
    assert value.item() == pytest.approx(1.0)
    assert metrics["kl"].item() == pytest.approx(2.0)
    assert PolicyGradient(kl="k2", kl_anchor="old").needs_old


def test_dead_units_pass_nothing_on_even_if_they_are_nan():
    logprob = torch.tensor([[-1.0, math.nan]], requires_grad=True)
    live = torch.tensor([[True, False]])
    value, _ = PolicyGradient(normaliser="unit")(
        estimate(logprob), None, None, torch.tensor([[1.0, math.nan]]), units(1, 2, live_BU=live)
    )
    value.backward()
    assert value.item() == pytest.approx(1.0)
    assert logprob.grad.tolist() == [[-1.0, 0.0]]
