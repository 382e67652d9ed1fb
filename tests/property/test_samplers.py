"""Laws of every registered sampler; a new one is tested the moment its file exists."""

import pytest
from hypothesis import given, settings

from dllmzoo.laws import LAWS, check_sampler, hold
from dllmzoo.zoo import SAMPLERS
from tests.strategies import cases


@pytest.mark.parametrize("law", LAWS["sampler"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", SAMPLERS.names())
@settings(max_examples=20)
@given(case=cases())
def test_every_sampler_obeys_the_laws(name, law, case):
    hold(SAMPLERS.get(name), law, case)


@pytest.mark.parametrize("name", SAMPLERS.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    report = check_sampler(SAMPLERS.get(name))
    named = {law.partition(" if ")[0] for law in report.exempt}
    assert {*report.held, *report.silent, *named} == set(LAWS["sampler"])
    assert report.held


def test_no_law_is_silent_about_every_sampler():
    held = {law for name in SAMPLERS.names() for law in check_sampler(SAMPLERS.get(name)).held}
    assert held == set(LAWS["sampler"])
