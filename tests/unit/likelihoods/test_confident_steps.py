"""Confident steps: committed slots, slots already likely, and when the filter is fixed."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.records import Key, Steps, take
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import chosen, played

ConfidentSteps = LIKELIHOODS.get("confident_steps")
KEY = Key(0, 0, "views")


def plan(rollout, steps, **options):
    return ConfidentSteps(**options).plan(rollout, steps, KEY, 1)


def refined(rollout, steps, prob, **options):
    """The plan refined with the same old probabilities of each slot in every view."""
    views = plan(rollout, steps, **options)
    old_BKL = torch.tensor([[0.5, *prob]]).log().expand(views.score_BKL.shape)
    return ConfidentSteps(**options).refine(views, torch.where(views.score_BKL, old_BKL, 0))


def test_paper_name_is_an_alias():
    assert LIKELIHOODS.get("rldf") is ConfidentSteps


def test_candidates_are_all_hidden_valid_slots():
    # slots committed at steps 1, 0, 2, 1; the last one stands behind the end token 5
    views = plan(played([[1, 2, 5, 4]], [[1, 0, 2, 1]]), chosen([[1, 2]]))
    assert views.hide_BKL.int().tolist() == [[[0, 1, 0, 1, 1], [0, 0, 0, 1, 0]]]
    assert views.score_BKL.int().tolist() == [[[0, 1, 0, 1, 0], [0, 0, 0, 1, 0]]]
    assert views.weight_BU.tolist() == [[1.0] * 10]


def test_refining_keeps_committed_slots_and_sure_ones():
    # before step 0 all are hidden; step 0 commits slot 2 (unsure), slot 1 is sure, slot 3 not
    rollout = played([[1, 2, 3]], [[1, 0, 2]])
    found = refined(rollout, chosen([[0]]), [0.7, 0.1, 0.5])
    assert found.score_BKL.int().tolist() == [[[0, 1, 1, 0]]]
    assert refined(rollout, chosen([[0]]), [0.7, 0.1, 0.5], confidence=0.45).score_BKL.sum() == 3
    assert refined(rollout, chosen([[0]]), [0.7, 0.1, 0.5], confidence=0.8).score_BKL.sum() == 1


def test_a_slot_can_count_in_several_views_each_judged_by_its_step():
    rollout = played([[1, 2, 3]], [[0, 1, 2]])
    found = refined(rollout, chosen([[1, 0]], [[2.0, 1.0]]), [0.1, 0.1, 0.9])
    # view of step 1: slot 2 (committed) and 3 (sure); of step 0: slot 1 and 3
    assert found.score_BKL.int().tolist() == [[[0, 0, 1, 1], [0, 1, 0, 1]]]
    credit_BU = found.credit(torch.tensor([[10.0, 20.0]]))
    assert credit_BU[found.live_BU].tolist() == [10.0, 10.0, 20.0, 20.0]
    assert found.weight_BU[found.live_BU].tolist() == [2.0, 2.0, 1.0, 1.0]
    logprob_BKL = -torch.arange(8.0).view(1, 2, 4) * found.score_BKL
    pooled = ConfidentSteps().pool(logprob_BKL, found, rollout, torch.zeros(1, 1))
    assert pooled.score_BU[found.live_BU].tolist() == [-2.0, -3.0, -5.0, -7.0]
    assert pooled.score_BU is pooled.ratio_BU


def test_spans_commit_all_their_steps():
    rollout = played([[1, 2, 3]], [[0, 1, 2]])
    steps = Steps(torch.tensor([[0]]), torch.tensor([[2]]), torch.ones(1, 1))
    assert refined(rollout, steps, [0.1, 0.1, 0.1]).score_BKL.int().tolist() == [[[0, 1, 1, 0]]]


def test_refining_minibatches_is_refining_the_round():
    rollout = played([[1, 2, 3], [3, 2, 1], [1, 1, 1]], [[0, 1, 2], [2, 1, 0], [1, 0, 0]])
    views = plan(rollout, chosen([[0, 1]] * 3))
    old_BKL = -torch.rand(views.score_BKL.shape, generator=KEY.generator()) * views.score_BKL
    whole = ConfidentSteps().refine(views, old_BKL)
    rows = torch.tensor([2, 0])
    part = ConfidentSteps().refine(take(views, rows), old_BKL[rows])
    assert torch.equal(part.score_BKL, whole.score_BKL[rows])
    assert (whole.score_BKL.sum() < views.score_BKL.sum()) and whole.score_BKL.any()


def test_states_of_a_sampler_that_masks_again_are_shown_as_they_were():
    rollout = played([[1, 2]], [[2, 1]])
    rollout = replace(
        rollout,
        hidden_BTN=torch.tensor([[[1, 1], [0, 1], [1, 0]]]).bool(),
        draft_BTN=torch.tensor([[[3, 4], [3, 2], [1, 2]]]),
    )
    views = plan(rollout, chosen([[1]]))
    assert views.hide_BKL.int().tolist() == [[[0, 0, 1]]]
    assert views.shown_BKL[0, 0].tolist() == [0, 3, 2]
    assert views.target_BKL is None, "targets are the final tokens"


def test_unused_entries_score_nothing():
    views = plan(played([[1, 2]], [[0, 1]]), chosen([[0, 1]], [[0.0, 1.0]]))
    assert views.score_BKL.any(2).tolist() == [[False, True]]


def test_missing_steps_and_bad_thresholds_are_refused():
    with pytest.raises(UsageError, match="add a selector"):
        plan(played([[1]], [[0]]), None)
    for wrong in (0.0, 1.5):
        with pytest.raises(ValidationError):
            ConfidentSteps(confidence=wrong)
