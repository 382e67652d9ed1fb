"""Laws of every registered loss; a new one is tested the moment its file exists."""

from functools import cache

import pytest
from hypothesis import given, settings

from dllmzoo.laws import LAWS, check_loss, hold
from dllmzoo.laws.law import one
from dllmzoo.laws.optimiser_step import step, value
from dllmzoo.zoo import LOSSES
from tests.strategies import cases


@cache
def report(name):
    return check_loss(LOSSES.get(name))


@pytest.mark.parametrize("law", LAWS["loss"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", LOSSES.names())
@settings(max_examples=40)
@given(case=cases())
def test_every_loss_obeys_the_laws(name, law, case):
    hold(LOSSES.get(name), law, case)


@pytest.mark.parametrize("name", LOSSES.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    named = {key.partition(" if ")[0] for key in report(name).exempt}
    assert {*report(name).held, *report(name).silent, *named} == set(LAWS["loss"])
    assert report(name).held


def test_no_law_is_silent_about_every_loss():
    assert {law for name in LOSSES.names() for law in report(name).held} == set(LAWS["loss"])


@pytest.mark.parametrize("name", LOSSES.names())
@settings(max_examples=40)
@given(case=cases())
def test_only_the_new_policy_learns(name, case):
    loss = one(LOSSES.get(name), "loss", case)
    at = step(loss, case, moved=0.3)
    fixed = [
        (value_BU + shift).requires_grad_()
        for value_BU, shift in ((at.old_BU, 0), (at.old_BU, 0.1), (at.advantage_BU, 0))
    ]
    old_BU, reference_BU, advantage_BU = fixed
    new_BU = at.new_BU.clone().requires_grad_()
    scalar, _ = value(loss, new_BU, old_BU, advantage_BU, at.units, reference_BU=reference_BU)
    if scalar.requires_grad:
        scalar.backward()
    assert all(leaf_BU.grad is None for leaf_BU in fixed)
