"""Two-mean-field likelihood: which view scores what, and how the step is drawn."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.records import Key
from dllmzoo.zoo import LIKELIHOODS
from tests.scripted import script
from tests.strategies import played

TwoMeanField = LIKELIHOODS.get("two_mean_field")
KEY = Key(5, 0, "views")


def planned(rollout, place):
    key = script(step=torch.full((len(rollout.tokens_BL),), place))
    return TwoMeanField().plan(rollout, None, key, 1)


def test_tokens_before_the_step_see_the_prompt_and_the_others_its_state():
    # steps 0 1 2; the place 0.5 of three steps is step 1: slot 1 was revealed before
    rollout = played([[1, 2, 3]], [[1, 0, 2]])
    views = planned(rollout, 0.5)
    assert views.hide_BKL[0].int().tolist() == [[0, 1, 1, 1], [0, 1, 0, 1]]
    assert views.score_BKL[0].int().tolist() == [[0, 0, 1, 0], [0, 1, 0, 1]]
    logprob_BKL = torch.tensor([[[0, 0, -1.0, 0], [0, -2, 0, -3]]])
    pooled = TwoMeanField().pool(logprob_BKL, views, rollout, views.size_BU)
    assert pooled.score_BU.tolist() == [[0.0, -2.0, -1.0, -3.0]]


def test_the_first_step_needs_one_view_only():
    views = planned(played([[1, 2, 3]], [[1, 0, 2]]), 0.0)
    assert views.score_BKL.any(2).tolist() == [[False, True]]
    assert torch.equal(views.hide_BKL[0, 0], views.hide_BKL[0, 1])


def test_only_steps_that_committed_something_are_drawn():
    # steps 1 and 4 of 6 committed tokens
    rollout = played([[1, 2, 3]] * 400, [[4, 1, 4]] * 400, num_steps=6)
    views = TwoMeanField().plan(rollout, None, KEY, 1)
    late = views.score_BKL[:, 0].any(1)
    # at step 1 nothing stood; at step 4 slot 1 did
    assert late.float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert views.score_BKL[late][:, 0, 1:].int().unique(dim=0).tolist() == [[0, 1, 0]]


def test_slots_after_the_end_and_slots_never_committed_are_not_scored():
    # 5 is the end token
    rollout = played([[1, 5, 2, 3], [1, 2, 3, 4]], [[0, 1, 0, 1], [0, 1, -1, -1]])
    for place in (0.0, 0.9):
        views = planned(rollout, place)
        assert views.score_BKL.sum(1).tolist() == [[0, 1, 1, 0, 0], [0, 1, 1, 0, 0]]
        # a slot that no step committed is hidden in both views
        assert views.hide_BKL[1, :, -2:].all()


def test_an_answer_without_steps_is_wholly_hidden():
    rollout = played([[1, 2]], [[-1, -1]], num_steps=2)
    views = planned(rollout, 0.7)
    assert views.hide_BKL[0, :, 1:].all() and not views.score_BKL.any()


def test_the_step_is_fresh_in_every_pass_and_keyed_by_sample():
    rollout = played([[1, 2, 3, 4]] * 40, [[0, 1, 2, 3]] * 40)
    first = TwoMeanField().plan(rollout, None, KEY, 2).score_BKL
    again = TwoMeanField().plan(rollout, None, Key(5, 0, "views", 1), 2).score_BKL
    assert not torch.equal(first, again)
    assert len(first[:, 0].sum(1).unique()) == 4


def test_stored_states_are_shown_as_they_were():
    # slot 0 stood as token 4 before step 1, was masked again and became 1; slot 1 came at step 1
    rollout = played([[1, 2]], [[2, 1]], num_steps=3)
    rollout = replace(
        rollout,
        draft_BTN=torch.tensor([[[4, 3], [4, 2], [1, 2]]]),
        hidden_BTN=torch.tensor([[[True, True], [False, True], [True, False]]]),
    )
    views = planned(rollout, 0.0)  # of the steps 1 and 2
    assert views.hide_BKL[0, 1].tolist() == [False, False, True]
    assert views.shown_BKL[0, 1].tolist() == [0, 4, 2]
    assert views.score_BKL[0].int().tolist() == [[0, 1, 0], [0, 0, 1]]


def test_facts_of_the_part():
    likelihood = TwoMeanField()
    assert likelihood.num_forwards == 2 and likelihood.unit == "slot"
    assert likelihood.reads_reveal and not likelihood.uses_steps
    assert planned(played([[1]], [[0]], temperature=0.7), 0.0).temperature == 0.7
