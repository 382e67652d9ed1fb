from dataclasses import replace

import pytest
import torch

from dllmzoo.records import take
from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout, used

Top = SELECTORS.get("top_advantage")
PLAYED = rollout([[0, 1, 3], [0, 1, 2]], [[1.0] * 3] * 2, 4)
ADVANTAGE = torch.tensor([[0.5, -2.0, 9.0, 1.0], [-0.1, 0.2, -0.3, 7.0]])


def test_paper_name_is_an_alias():
    assert SELECTORS.get("top_abs_adv") is Top
    assert Top().needs_advantage


def test_praise_and_blame_count_alike_and_empty_steps_do_not():
    # |A| of the steps that committed: 0.5, 2, -, 1 and 0.1, 0.2, 0.3, -
    steps = Top(steps=2)(PLAYED, KEY, ADVANTAGE)
    assert steps.start_BK.tolist() == [[1, 3], [2, 1]]
    assert steps.stop_BK.tolist() == [[2, 4], [3, 2]]
    assert used(Top(steps=4)(PLAYED, KEY, ADVANTAGE)) == [[1, 3, 0], [2, 1, 0]]


def test_ties_go_to_the_smaller_step():
    flat = torch.tensor([[1.0, -1.0, 1.0, -1.0], [0.0] * 4])
    assert used(Top(steps=2)(PLAYED, KEY, flat)) == [[0, 1], [0, 1]]


def test_the_samples_of_a_prompt_can_have_one_choice():
    # sums over both: 0.6, 2.2, 0.3 (row 1 alone), 1.0 (row 0 alone)
    steps = Top(steps=3, common=True)(PLAYED, KEY, ADVANTAGE)
    assert steps.start_BK.tolist() == [[1, 3, 0]] * 2
    assert steps.weight_BK.tolist() == [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]


def test_prompts_choose_apart():
    apart = replace(PLAYED, group_B=torch.tensor([4, 2]))
    common = Top(steps=2, common=True)(apart, KEY, ADVANTAGE)
    assert torch.equal(common.start_BK, Top(steps=2)(PLAYED, KEY, ADVANTAGE).start_BK)
    swapped = torch.tensor([1, 0])
    turned = Top(steps=2, common=True)(take(apart, swapped), KEY, ADVANTAGE[swapped])
    assert torch.equal(turned.start_BK, common.start_BK[swapped])


def test_a_step_of_a_sampler_that_masks_again_counts_where_it_changed_the_canvas():
    # one slot, filled at 0, masked and filled again at 1, left alone at 2: reveal is 1
    hidden = torch.tensor([[[True, True], [True, False], [False, False]]])
    once = rollout([[1, 0]], [[1.0, 1.0]], 3)
    remasked = replace(once, hidden_BTN=hidden, reveal_BL=torch.tensor([[-1, 1, 1]]))
    assert used(Top(steps=3)(remasked, KEY, torch.tensor([[1.0, 3.0, 9.0]]))) == [[1, 0]]
    assert used(SELECTORS.get("all")()(remasked, KEY)) == [[0, 1]]


def test_costs_are_known_before_sampling():
    assert [Top(steps=8).num_selected(T) for T in (4, 16)] == [4, 8]


def test_at_least_one_step_is_kept():
    with pytest.raises(ValueError, match="steps"):
        Top(steps=0)
