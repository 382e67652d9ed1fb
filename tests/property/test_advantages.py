"""Laws of every registered advantage; a new one is tested the moment its file exists."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllmzoo.laws import LAWS, check_advantage, hold
from dllmzoo.zoo import ADVANTAGES
from tests.strategies import cases, credit, scored_groups


@cache
def report(name):
    return check_advantage(ADVANTAGES.get(name))


@pytest.mark.parametrize("law", LAWS["advantage"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", ADVANTAGES.names())
@settings(max_examples=40)
@given(case=cases())
def test_every_advantage_obeys_the_laws(name, law, case):
    hold(ADVANTAGES.get(name), law, case)


@pytest.mark.parametrize("name", ADVANTAGES.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    named = {key.partition(" if ")[0] for key in report(name).exempt}
    assert {*report(name).held, *report(name).silent, *named} == set(LAWS["advantage"])
    assert report(name).held


def test_no_law_is_silent_about_every_advantage():
    assert {law for name in ADVANTAGES.names() for law in report(name).held} == set(
        LAWS["advantage"]
    )


@pytest.mark.parametrize("name", ADVANTAGES.names())
@settings(max_examples=30)
@given(case=scored_groups())
def test_groups_sum_to_zero_for_any_floats(name, case):
    reward_B, reward_BK, G = case
    advantage_BA = credit(ADVANTAGES.get(name)(), reward_B, reward_BK, G)
    sum_PA = advantage_BA.view(-1, G, advantage_BA.shape[1]).sum(1)
    torch.testing.assert_close(sum_PA, torch.zeros_like(sum_PA), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ADVANTAGES.names())
@settings(max_examples=30)
@given(case=scored_groups(), shift=st.floats(-5, 5, width=32))
def test_a_constant_added_to_any_floats_changes_nothing(name, case, shift):
    reward_B, reward_BK, G = case
    advantage = ADVANTAGES.get(name)()
    torch.testing.assert_close(
        credit(advantage, reward_B + shift, reward_BK + shift, G),
        credit(advantage, reward_B, reward_BK, G),
        atol=1e-4, rtol=0,
    )  # fmt: skip
