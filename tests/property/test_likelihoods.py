"""Laws of every registered likelihood; a new one is tested the moment its file exists."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings

from dllmzoo.laws import LAWS, check_likelihood, hold, inputs
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.zoo import LIKELIHOODS, SAMPLERS, SELECTORS
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


@given(case=cases())
def test_states_that_a_sampler_stored_are_the_ones_that_are_scored(case):
    name = case.among("sampler", ("running_confidence", "low_confidence"))
    options = {"record_drafts": True} if name == "low_confidence" else {}
    sampler = SAMPLERS.get(name)(answer_length=6, steps=3, temperature=1.0, **options)
    rollout = sampler(ToyDenoiser(case.seed), inputs.prompts(case), case.key("sample"))
    steps = inputs.every_step(rollout)
    views = LIKELIHOODS.get("denoising_steps")(unit="slot").plan(rollout, steps, case.key("v"), 1)
    assert torch.equal(views.hide_BKL, rollout.hidden_before(steps.start_BK))
    assert torch.equal(views.score_BKL.sum(1), (rollout.reveal_BL >= 0).long())
    # what a step kept for good is what it had proposed
    drafts = LIKELIHOODS.get("drafts")().plan(rollout, steps, case.key("v"), 1)
    assert not (views.score_BKL & ~drafts.score_BKL).any()
    final_BKL = rollout.tokens_BL.unsqueeze(1).expand_as(drafts.target_BKL)
    assert torch.equal(drafts.target_BKL[views.score_BKL], final_BKL[views.score_BKL])


@given(case=cases())
def test_edges_of_a_real_tree_share_their_parents(case):
    sampler = SAMPLERS.get("tree")(answer_length=6, steps=4, temperature=1.0, branch=(2, 2))
    prompts = inputs.prompts(case, samples=4)
    rollout = sampler(ToyDenoiser(case.seed), prompts, case.key("sample"))
    steps = SELECTORS.get("edges")()(rollout, case.key("select"))
    views = LIKELIHOODS.get("denoising_steps")().plan(rollout, steps, case.key("views"), 1)
    # each prompt has its root and two inner states
    groups = rollout.group_B.unique().numel()
    assert views.parent_BU[views.live_BU].unique().numel() == 3 * groups
    state_BKL = rollout.tokens_BL.unsqueeze(1).masked_fill(views.hide_BKL, -1)
    for parent in views.parent_BU.unique():
        assert len(state_BKL[views.parent_BU == parent].unique(dim=0)) == 1
