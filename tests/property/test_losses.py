"""Laws of every registered loss; a new one is tested the moment its file exists."""

import pytest
from hypothesis import given

from dllmzoo.laws import LAWS, check_loss, hold
from dllmzoo.zoo import LOSSES
from tests.strategies import cases


@pytest.mark.parametrize("law", LAWS["loss"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", LOSSES.names())
@given(case=cases())
def test_every_loss_obeys_the_laws(name, law, case):
    hold(LOSSES.get(name), law, case)


@pytest.mark.parametrize("name", LOSSES.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    report = check_loss(LOSSES.get(name))
    named = {law.partition(" if ")[0] for law in report.exempt}
    assert {*report.held, *report.silent, *named} == set(LAWS["loss"])
    assert report.held


def test_no_law_is_silent_about_every_loss():
    held = {law for name in LOSSES.names() for law in check_loss(LOSSES.get(name)).held}
    assert held == set(LAWS["loss"])
