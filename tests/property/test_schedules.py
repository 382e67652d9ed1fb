"""Laws of every registered schedule; a new one is tested the moment its file exists."""

from functools import cache

import pytest
from hypothesis import given

from dllmzoo.laws import LAWS, check_schedule, hold
from dllmzoo.zoo import SCHEDULES
from tests.strategies import cases


@cache
def report(name):
    return check_schedule(SCHEDULES.get(name))


@pytest.mark.parametrize("law", LAWS["schedule"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", SCHEDULES.names())
@given(case=cases())
def test_every_schedule_obeys_the_laws(name, law, case):
    hold(SCHEDULES.get(name), law, case)


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    named = {key.partition(" if ")[0] for key in report(name).exempt}
    assert {*report(name).held, *report(name).silent, *named} == set(LAWS["schedule"])
    assert report(name).held


def test_no_law_is_silent_about_every_schedule():
    assert {law for name in SCHEDULES.names() for law in report(name).held} == set(LAWS["schedule"])
