"""Laws of every registered advantage; a new one is tested the moment its file exists."""

import pytest
from hypothesis import given

from dllmzoo.laws import LAWS, check_advantage, hold
from dllmzoo.zoo import ADVANTAGES
from tests.strategies import cases


@pytest.mark.parametrize("law", LAWS["advantage"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", ADVANTAGES.names())
@given(case=cases())
def test_every_advantage_obeys_the_laws(name, law, case):
    hold(ADVANTAGES.get(name), law, case)


@pytest.mark.parametrize("name", ADVANTAGES.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    report = check_advantage(ADVANTAGES.get(name))
    named = {law.partition(" if ")[0] for law in report.exempt}
    assert {*report.held, *report.silent, *named} == set(LAWS["advantage"])
    assert report.held


def test_no_law_is_silent_about_every_advantage():
    held = {law for name in ADVANTAGES.names() for law in check_advantage(ADVANTAGES.get(name)).held}
    assert held == set(LAWS["advantage"])
