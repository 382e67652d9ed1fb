"""Laws of every registered advantage; a new one is tested the moment its file exists."""

import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllmzoo.laws import LAWS, Case, check_advantage, hold, trees
from dllmzoo.laws.advantages import Scored
from dllmzoo.laws.law import excuse
from dllmzoo.zoo import ADVANTAGES
from tests.strategies import cases, rewards, seeds


@cache
def report(name):
    return check_advantage(ADVANTAGES.get(name))


def obeying(law):
    """Names of the advantages that are not exempt from a law with their defaults."""
    made = {name: ADVANTAGES.get(name)() for name in ADVANTAGES.names()}
    return [name for name, part in made.items() if excuse(part, LAWS["advantage"][law]) is None]


@pytest.mark.parametrize("law", LAWS["advantage"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", ADVANTAGES.names())
@settings(max_examples=20)
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


SETTINGS = [
    ("z_score", {"scope": "batch"}),
    ("z_score", {"std": "population", "added": 0.0}),
    ("z_score", {"floor": 0.01}),
    ("wd1", {"positive_only": True}),
    ("pass_rate_filter", {"keep": 1, "of": 2}),
    ("pass_rate_filter", {"passed_from": 1.0, "low": 0.0}),
    ("pass_rate_filter", {"inner": "preview_gain"}),
    ("pass_rate_filter", {"inner": "tree_leave_one_out"}),
    ("pass_rate_filter", {"inner": {"name": "stepwise_one_shot", "guesses": 2}}),
    ("stepwise_one_shot", {"growth": "linear", "normalise": False}),
]


@pytest.mark.parametrize(("name", "changes"), SETTINGS)
def test_settings_that_are_not_drawn_obey_the_laws_too(name, changes):
    assert check_advantage(ADVANTAGES.get(name)(**changes)).held


@st.composite
def given_rewards(draw, tree=False):
    """Finals and proposals of any float32 size, in trees of answers or not."""
    P, case = draw(st.integers(1, 3)), Case(draw(seeds))
    factors = trees.shape(case)
    G = math.prod(factors) if tree else draw(st.integers(2, 6))
    K = len(factors) + draw(st.integers(0, 2))
    B = P * G
    final_B = torch.tensor(draw(st.lists(rewards, min_size=B, max_size=B)))
    preview = draw(st.lists(rewards, min_size=B * K, max_size=B * K))
    return Scored(
        final_B, torch.tensor(preview).view(B, K, 1), torch.arange(K).expand(B, K),
        torch.arange(P).repeat_interleave(G), torch.ones(B, dtype=torch.bool), 0,
        trees.branches(case, P, K) if tree else None,
    )  # fmt: skip


def scored(name, data):
    """Rewards that fit what the advantage reads."""
    tree = getattr(ADVANTAGES.get(name)(), "needs_branches", False)
    return data.draw(given_rewards(tree))


@pytest.mark.parametrize("name", obeying("groups_sum_to_zero"))
@settings(max_examples=20)
@given(data=st.data())
def test_groups_sum_to_zero_for_any_floats(name, data):
    case = scored(name, data)
    found = case.credit(ADVANTAGES.get(name)())
    for group in case.group_B.unique():
        sum_A = found[case.group_B == group].sum(0)
        torch.testing.assert_close(sum_A, torch.zeros_like(sum_A), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", obeying("shift"))
@settings(max_examples=20)
@given(data=st.data(), constant=st.floats(-5, 5, width=32))
def test_a_constant_added_to_any_floats_changes_nothing(name, data, constant):
    case, advantage = scored(name, data), ADVANTAGES.get(name)()
    moved = case.change(case.final_B + constant, case.preview_BKG + constant)
    # a spread of rounding errors is divided by 1e-4 where rewards are nearly equal
    tolerance = 0.1 if "z_score" in name or name == "preview_gain" else 1e-4
    torch.testing.assert_close(
        moved.credit(advantage), case.credit(advantage), atol=tolerance, rtol=0
    )
