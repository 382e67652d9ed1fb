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


@pytest.mark.parametrize("steps", range(1, 12))
def test_step_sizes_that_double_add_up_whatever_the_number_of_tokens(steps):
    ascending = SCHEDULES.get("ascending")()
    for tokens in range(64, 513):
        counts = ascending.commits(tokens, steps)
        assert sum(counts) == tokens and len(counts) == steps and min(counts) >= 1
        if steps == tokens.bit_length() - 1:  # floor(log2 N): 1, 2, 4, ..., the rest
            assert counts[:-1] == [2**s for s in range(steps - 1)]


@pytest.mark.parametrize("name", sorted({*SCHEDULES.names()} - {"share_of_rest"}))
@given(case=cases())
def test_every_schedule_but_dreams_commits_a_token_a_step_while_there_are_tokens(name, case):
    tokens, steps = case.integer("tokens", 0, 60), case.integer("steps", 1, 30)
    counts = SCHEDULES.get(name)().commits(tokens, steps)
    assert sum(count > 0 for count in counts) == min(tokens, steps)
    assert counts == sorted(counts, key=lambda count: count == 0)  # empty steps come last
