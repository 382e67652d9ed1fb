"""Laws of every registered selector; a new one is tested the moment its file exists."""

from functools import cache

import pytest
from hypothesis import given, settings

from dllmzoo.laws import LAWS, check_selector, hold
from dllmzoo.zoo import SELECTORS
from tests.strategies import cases


@cache
def report(name):
    return check_selector(SELECTORS.get(name))


@pytest.mark.parametrize("law", LAWS["selector"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", SELECTORS.names())
@settings(max_examples=15)
@given(case=cases())
def test_every_selector_obeys_the_laws(name, law, case):
    hold(SELECTORS.get(name), law, case)


@pytest.mark.parametrize("name", SELECTORS.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    named = {key.partition(" if ")[0] for key in report(name).exempt}
    assert {*report(name).held, *report(name).silent, *named} == set(LAWS["selector"])
    assert report(name).held


@pytest.mark.parametrize("name", SELECTORS.names())
def test_what_a_selector_claims_or_needs_is_tested(name):
    selector, held = SELECTORS.get(name)(), report(name).held
    assert ("states_decide" in held) == getattr(selector, "state_only", False)
    assert ("shared_steps_count_once" in held) == getattr(selector, "needs_branches", False)
    assert "cost_is_known" in held
    if getattr(selector, "unbiased", False):
        assert "weights_are_unbiased" in held


def test_no_law_is_silent_about_every_selector():
    assert {law for name in SELECTORS.names() for law in report(name).held} == set(LAWS["selector"])
