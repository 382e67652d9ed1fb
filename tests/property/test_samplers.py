"""Laws of every registered sampler; a new one is tested the moment its file exists."""

from functools import cache

import pytest
from hypothesis import given, settings

from dllmzoo.laws import LAWS, Case, check_sampler, hold, inputs, samplers
from dllmzoo.laws.models import tiny
from dllmzoo.zoo import MODELS, SAMPLERS
from tests.strategies import cases


@cache
def report(name):
    return check_sampler(SAMPLERS.get(name))


@pytest.mark.parametrize("law", LAWS["sampler"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", SAMPLERS.names())
@settings(max_examples=15)
@given(case=cases())
def test_every_sampler_obeys_the_laws(name, law, case):
    hold(SAMPLERS.get(name), law, case)


@pytest.mark.parametrize("name", SAMPLERS.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    named = {key.partition(" if ")[0] for key in report(name).exempt}
    assert {*report(name).held, *report(name).silent, *named} == set(LAWS["sampler"])
    assert report(name).held


def test_no_law_is_silent_about_every_sampler():
    assert {law for name in SAMPLERS.names() for law in report(name).held} == set(LAWS["sampler"])


@pytest.mark.parametrize("law", LAWS["sampler"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", SAMPLERS.names())
def test_the_laws_hold_with_a_tiny_model_of_a_real_family(name, law, monkeypatch):
    llada = tiny(MODELS.get("llada"), Case(2))
    monkeypatch.setattr(samplers, "policy_for", lambda sampler, case: llada)
    for seed in range(4):
        hold(SAMPLERS.get(name), law, Case(seed, 4))


@pytest.mark.parametrize("name", SAMPLERS.names())
def test_the_default_construction_samples(name):
    sampler, case = SAMPLERS.get(name)(), Case(0, 0)
    policy = samplers.policy_for(sampler, case)
    rollout = sampler(policy, inputs.prompts(case), case.key("sample"))
    assert int(rollout.answer_BL.sum(1).min()) == sampler.answer_length
