"""Laws of every registered loss; a new one is tested the moment its file exists."""

from functools import cache

import pytest
from hypothesis import given, settings

from dllmzoo.laws import LAWS, check_loss, hold
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
