"""Draft likelihood: whole proposals as targets, their weights, and what must be stored."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.laws import inputs, trajectories
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.records import Key, Units
from dllmzoo.scoring import score
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import chosen, played

Drafts = LIKELIHOODS.get("drafts")
KEY = Key(0, 0, "views")
NO_CREDIT = torch.zeros(1, 1)


def remasked():
    """Four slots, three steps; slot 1 is filled at step 0, masked again and filled at step 2.

    A word of prompt (0) stands before the answer 1 2 3 4.
    """
    rollout = played([[1, 2, 3, 4]], [[2, 0, 1, 2]])
    hidden = [[1, 1, 1, 1], [0, 0, 1, 1], [1, 0, 0, 1]]
    draft = [[4, 2, 1, 1], [4, 2, 3, 0], [1, 2, 3, 4]]
    return replace(
        rollout, hidden_BTN=torch.tensor([hidden]).bool(), draft_BTN=torch.tensor([draft])
    )


def plan(rollout, steps, **options):
    return Drafts(**options).plan(rollout, steps, KEY, 1)


def test_paper_name_is_an_alias_and_needs_are_stated():
    assert LIKELIHOODS.get("mdpo") is Drafts
    assert Drafts.needs_drafts and Drafts.uses_steps and Drafts.shares_masks


def test_a_view_shows_the_state_and_scores_all_its_proposals():
    views = plan(remasked(), chosen([[1, 2]]))
    assert views.hide_BKL.int().tolist() == [[[0, 0, 0, 1, 1], [0, 1, 0, 0, 1]]]
    assert torch.equal(views.score_BKL, views.hide_BKL)
    assert views.target_BKL.tolist() == [[[0, 4, 2, 3, 0], [0, 1, 2, 3, 4]]]
    # before step 1 a 4 stands in slot 1, which is no longer there in the end
    assert torch.equal(views.shown_BKL, views.target_BKL)


def test_each_slot_of_each_view_is_a_unit_judged_by_its_step():
    views = plan(remasked(), chosen([[2, 0]]))
    assert views.size_BU.shape == (1, 2 * 5) and set(views.size_BU.flatten().tolist()) == {1.0}
    assert views.live_BU.view(2, 5).int().tolist() == [[0, 1, 0, 0, 1], [0, 1, 1, 1, 1]]
    credit_BU = views.credit(torch.tensor([[10.0, 20.0]]))
    assert credit_BU.tolist() == [[10.0] * 5 + [20.0] * 5]
    logprob_BKL = -torch.arange(10.0).view(1, 2, 5) * views.score_BKL
    found = Drafts().pool(logprob_BKL, views, remasked(), NO_CREDIT)
    assert found.score_BU.view(2, 5).tolist() == logprob_BKL[0].tolist()
    assert found.score_BU is found.ratio_BU


def test_terms_weigh_slots_over_hidden_slots_times_the_steps_weight():
    # N = 4; 2 slots are hidden before step 1, 4 before step 0
    views = plan(remasked(), chosen([[1, 0]], [[1.0, 0.5]]))
    assert views.weight_BU[views.live_BU].tolist() == [2.0] * 2 + [0.5] * 4


def test_refining_weighs_by_the_old_probability_of_the_proposal():
    views = plan(remasked(), chosen([[2]]))
    old_BKL = torch.where(views.score_BKL, torch.tensor([0, 0.25, 0, 0, 0.5]).log(), 0)
    refined = Drafts().refine(views, old_BKL.requires_grad_())
    # N / m = 4 / 2 = 2, times 0.25 and 0.5
    assert refined.weight_BU[refined.live_BU].tolist() == pytest.approx([0.5, 1.0])
    assert torch.equal(refined.score_BKL, views.score_BKL)
    assert not refined.weight_BU.requires_grad
    assert Drafts(weigh_by_confidence=False).refine(views, old_BKL) is views


def test_a_mean_over_slots_then_views_divides_by_hidden_slots_once_more():
    # terms of -1 each: view 1 has 2 slots of weight 2, view 0 has 4 of weight 1
    rollout = remasked()
    views = plan(rollout, chosen([[1, 0]]))
    units = Units.of(views, rollout)
    term_BU = -torch.ones_like(views.size_BU)
    # mean over a view's slots: -2 and -1; mean over views: -1.5
    assert units.mean(term_BU, "row").item() == pytest.approx(-1.5)


def test_unused_entries_score_nothing():
    views = plan(remasked(), chosen([[0, 2]], [[1.0, 0.0]]))
    assert views.score_BKL.any(2).tolist() == [[True, False]]
    assert int(views.live_BU.sum()) == 4


def test_the_log_probs_are_those_of_the_proposals_in_their_state():
    rollout, policy = remasked(), ToyDenoiser(1)
    views = plan(rollout, chosen([[1]]))
    found = score(policy, rollout, views, micro_batch=1).logprob_BKL[0, 0]
    state = torch.tensor([[0, 4, 2, policy.mask_id, policy.mask_id]])
    logprob = policy(state, torch.ones_like(state)).logits.log_softmax(-1)[0]
    expected = torch.tensor([0, 0, 0, logprob[3, 3].item(), logprob[4, 0].item()])
    torch.testing.assert_close(found, expected)


def test_temperature_is_the_samplers_unless_given():
    case = inputs.Case(1)
    rollout = trajectories.with_stored_states(played([[1, 2]], [[0, 1]], temperature=0.4), case)
    assert plan(rollout, chosen([[0]])).temperature == 0.4
    assert plan(rollout, chosen([[0]]), temperature=1.0).temperature == 1.0


def test_missing_steps_and_missing_drafts_are_refused():
    with pytest.raises(UsageError, match="add a selector"):
        plan(remasked(), None)
    with pytest.raises(UsageError, match="record_drafts: true"):
        plan(played([[1, 2]], [[0, 1]]), chosen([[0]]))
