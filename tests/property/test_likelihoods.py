"""Laws of every registered likelihood; a new one is tested the moment its file exists."""

from functools import cache

import pytest
from hypothesis import given, settings

from dllmzoo.laws import LAWS, check_likelihood, hold
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import cases


@cache
def report(name):
    return check_likelihood(LIKELIHOODS.get(name))


@pytest.mark.parametrize("law", LAWS["likelihood"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", LIKELIHOODS.names())
@settings(max_examples=20)
@given(case=cases())
def test_every_likelihood_obeys_the_laws(name, law, case):
    hold(LIKELIHOODS.get(name), law, case)


@pytest.mark.parametrize("name", LIKELIHOODS.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    named = {key.partition(" if ")[0] for key in report(name).exempt}
    assert {*report(name).held, *report(name).silent, *named} == set(LAWS["likelihood"])
    assert report(name).held


def test_no_law_is_silent_about_every_likelihood():
    assert {law for name in LIKELIHOODS.names() for law in report(name).held} == set(
        LAWS["likelihood"]
    )
