"""Laws of every registered selector; a new one is tested the moment its file exists."""

import pytest
from hypothesis import given

from dllmzoo.laws import LAWS, check_selector, hold
from dllmzoo.zoo import SELECTORS
from tests.strategies import cases


@pytest.mark.parametrize("law", LAWS["selector"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", SELECTORS.names())
@given(case=cases())
def test_every_selector_obeys_the_laws(name, law, case):
    hold(SELECTORS.get(name), law, case)


@pytest.mark.parametrize("name", SELECTORS.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    report = check_selector(SELECTORS.get(name))
    named = {law.partition(" if ")[0] for law in report.exempt}
    assert {*report.held, *report.silent, *named} == set(LAWS["selector"])
    assert report.held


def test_no_law_is_silent_about_every_selector():
    held = {law for name in SELECTORS.names() for law in check_selector(SELECTORS.get(name)).held}
    assert held == set(LAWS["selector"])
