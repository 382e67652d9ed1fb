"""Scores of proposals and their z-scores, by hand."""

import math
from dataclasses import replace

import pytest
import torch

from dllmzoo.advantages.preview_gain import step_scores
from dllmzoo.errors import UsageError
from dllmzoo.laws import inputs
from dllmzoo.zoo import ADVANTAGES
from tests.strategies import chosen, credit, played

PreviewGain = ADVANTAGES.get("preview_gain")


def scores(*reward, known=None):
    reward_BT = torch.tensor([reward], dtype=torch.float64)
    known_BT = torch.ones(reward_BT.shape) > 0 if known is None else torch.tensor([known]) > 0
    return step_scores(reward_BT, known_BT)[0].tolist()


def test_paper_name_is_an_alias():
    assert ADVANTAGES.get("mdpo") is PreviewGain
    assert PreviewGain().needs_every_step


def test_early_success_keeps_its_gain_and_losing_it_is_blamed():
    # 0 + 2/5, 1 + 1/4, 0 + 0, -1 + 0, 0, 0
    assert scores(0, 1, 1, 0, 0, 0) == pytest.approx([0.4, 1.25, 0.0, -1.0, 0.0, 0.0])


def test_the_last_step_adds_its_own_reward():
    # 0.5 + 1, 0.5 + 1
    assert scores(0.5, 1.0) == [1.5, 1.5]
    assert scores(2.0) == [4.0]


def test_steps_without_a_proposal_are_skipped():
    # known 0, 1, 0 at steps 0, 2, 3: 0 + 1/2, 1 + 0, -1 + 0
    found = scores(0.0, 9.0, 1.0, 0.0, 9.0, known=[1, 0, 1, 1, 0])
    assert [found[s] for s in (0, 2, 3)] == [0.5, 1.0, -1.0]
    # the first known one gains over nothing, the last known one adds its own reward
    assert scores(9.0, 1.0, 9.0, known=[0, 1, 0])[1] == 2.0


def test_scores_are_standardised_at_each_step_of_the_group():
    # rewards 0, 1 and 1, 1: scores 0 + 1, 1 + 1 and 1 + 1, 0 + 1: gaps -+ 0.5 and +- 0.5
    unit = 0.5 / (math.sqrt(0.5) + 1e-4)
    found = credit(PreviewGain(), torch.zeros(2), torch.tensor([[0.0, 1.0], [1.0, 1.0]]), 2)
    assert found.tolist() == [pytest.approx([-unit, unit]), pytest.approx([unit, -unit])]
    assert found.dtype == torch.float32


def test_a_constant_added_to_every_proposal_changes_nothing():
    reward = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    found = credit(PreviewGain(), torch.zeros(3), reward + 4, 3)
    torch.testing.assert_close(found, credit(PreviewGain(), torch.zeros(3), reward, 3))


def test_equal_groups_give_exactly_zero():
    reward = torch.tensor([[0.1, 0.7, 0.3, 0.9]]).expand(3, 4)
    assert not credit(PreviewGain(), torch.arange(3.0), reward, 3).any()


def test_an_abstained_answer_is_out_of_the_statistics():
    reward = torch.tensor([[0.0, 1.0], [5.0, -7.0], [1.0, 1.0]])
    counted_B = torch.tensor([True, False, True])
    found = credit(PreviewGain(), torch.zeros(3), reward, 3, counted_B=counted_B)
    straight = credit(PreviewGain(), torch.zeros(2), reward[[0, 2]], 2)
    assert torch.equal(found[[0, 2]], straight) and not found[1].any()


def test_an_abstained_proposal_gets_nothing():
    rollout = played([[0, 0]] * 2, [[0, 1]] * 2, group_size=2)
    counted_X = torch.tensor([True, True, True, False])
    previews = inputs.rewards(torch.tensor([0.0, 1.0, 1.0, 9.0]), counted_X)
    steps = chosen([[0, 1]] * 2)
    found = PreviewGain()(inputs.rewards(torch.zeros(2)), previews, steps, rollout, 0)
    # row 1: 1 + 1 at step 0; row 0: 0 + 1; step 1 has one proposal: nothing to compare
    unit = 0.5 / (math.sqrt(0.5) + 1e-4)
    assert found.tolist() == [pytest.approx([-unit, 0.0]), pytest.approx([unit, 0.0])]


def test_guesses_of_steps_that_did_nothing_are_skipped_and_stored_drafts_are_not():
    rollout = played([[0, 0]] * 2, [[0, 2]] * 2, group_size=2, num_steps=3)
    previews = inputs.rewards(torch.tensor([0.0, 9.0, 1.0, 1.0, -9.0, 1.0]))
    steps = chosen([[0, 1, 2]] * 2, [[1.0, 0.0, 1.0]] * 2)
    given = (inputs.rewards(torch.zeros(2)), previews, steps)
    found = PreviewGain()(*given, rollout, 0)
    unit = 0.5 / (math.sqrt(0.5) + 1e-4)
    # 0 + 1, 1 + 1 and 1 + 1, 0 + 1 at steps 0 and 2
    assert found.tolist() == [pytest.approx([-unit, 0, unit]), pytest.approx([unit, 0, -unit])]
    stored = replace(rollout, draft_BTN=torch.zeros(2, 3, 2, dtype=torch.long))
    assert PreviewGain()(*given, stored, 0)[:, 1].abs().min() > 0.5


@pytest.mark.parametrize("start", [[[1, 0]] * 2, [[0]] * 2])
def test_columns_that_are_not_all_steps_in_time_order_are_refused(start):
    rollout = played([[0, 0]] * 2, [[0, 1]] * 2, group_size=2)
    previews = inputs.rewards(torch.zeros(2 * len(start[0])))
    with pytest.raises(UsageError, match=r"each of the 2 steps.*use selector top_advantage"):
        PreviewGain()(inputs.rewards(torch.zeros(2)), previews, chosen(start), rollout, 0)


def test_missing_proposals_are_refused():
    rollout = played([[0, 0]] * 2, [[0, 1]] * 2, group_size=2)
    for previews, steps in ((None, chosen([[0, 1]] * 2)), (inputs.rewards(torch.zeros(4)), None)):
        with pytest.raises(UsageError, match="they are missing"):
            PreviewGain()(inputs.rewards(torch.zeros(2)), previews, steps, rollout, 0)
