"""Stepwise advantages from one-shot guesses: identity, every option, unused and abstained."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from dllmzoo.errors import UsageError
from dllmzoo.laws import inputs
from dllmzoo.records import Steps
from dllmzoo.zoo import ADVANTAGES
from tests.strategies import chosen, credit, played, scored_groups

Stepwise = ADVANTAGES.get("stepwise_one_shot")
FINAL = torch.tensor([1.0, 3.0])
GUESS = torch.tensor([[0.0, 2.0], [1.0, 2.5]])


def of(advantage, **settings):
    return credit(advantage, FINAL, GUESS, 2, **settings).tolist()


def test_paper_names_are_aliases():
    assert ADVANTAGES.get("egspo_sa") is ADVANTAGES.get("stepwise") is Stepwise


def test_default_is_the_centred_mixture_of_reward_and_gain():
    # (r + (r - g) / 2) / 1.5: row 0: 1.5/1.5 = 1 and 0.5/1.5 = 1/3; row 1: 4/1.5 and 3.25/1.5
    # centred by rank: -+ (2.666667 - 1) / 2 = 0.833333 and -+ (2.166667 - 0.333333) / 2
    assert of(Stepwise()) == [
        pytest.approx([-0.833333, -0.916667]),
        pytest.approx([0.833333, 0.916667]),
    ]


def test_not_normalised_is_one_plus_lambda_times_that():
    # 1.5 * the numbers above
    assert of(Stepwise(normalise=False)) == [
        pytest.approx([-1.25, -1.375]),
        pytest.approx([1.25, 1.375]),
    ]


def test_standard_returns_leave_the_gain_uncentred():
    # (-1 + 0.5 * (1 - 0)) / 1.5 = -1/3, (-1 + 0.5 * (1 - 2)) / 1.5 = -1
    # (1 + 0.5 * (3 - 1)) / 1.5 = 4/3, (1 + 0.5 * (3 - 2.5)) / 1.5 = 5/6
    assert of(Stepwise(standard_returns=True)) == [
        pytest.approx([-1 / 3, -1.0]),
        pytest.approx([4 / 3, 5 / 6]),
    ]


def test_own_subtracts_the_guess_itself():
    # (r - mean) - g / 3
    assert of(Stepwise(centre="own")) == [
        pytest.approx([-1.0, -1 - 2 / 3]),
        pytest.approx([1 - 1 / 3, 1 - 2.5 / 3]),
    ]


def test_loo_rank_centres_guesses_on_the_others():
    # -1 - (0 - 1) / 3, -1 - (2 - 2.5) / 3; 1 - (1 - 0) / 3, 1 - (2.5 - 2) / 3
    assert of(Stepwise(centre="loo_rank")) == [
        pytest.approx([-2 / 3, -1 + 0.5 / 3]),
        pytest.approx([2 / 3, 1 - 0.5 / 3]),
    ]


def test_step_centres_guesses_of_the_same_denoising_step():
    # row 0 chose steps 1, 0 and row 1 chose 0, 1: step 1 has guesses 0 and 2.5, step 0 has 2 and 1
    rollout = played([[1, 2]] * 2, [[0, 1]] * 2, group_size=2)
    steps = chosen([[1, 0], [0, 1]])
    found = Stepwise(centre="step")(
        inputs.rewards(FINAL), inputs.rewards(GUESS.flatten()), steps, rollout, 0
    )
    assert found.tolist() == [
        pytest.approx([-1 + 1.25 / 3, -1 - 0.5 / 3]),
        pytest.approx([1 + 0.5 / 3, 1 - 1.25 / 3]),
    ]


def test_step_centres_a_step_that_one_sample_chose_to_nothing():
    rollout = played([[1, 2, 3]] * 2, [[0, 1, 2]] * 2, group_size=2)
    found = Stepwise(centre="step")(
        inputs.rewards(FINAL), inputs.rewards(GUESS.flatten()), chosen([[0, 1], [2, 1]]), rollout, 0
    )
    assert found[:, 0].tolist() == pytest.approx([-1.0, 1.0])


def test_reward_baseline_can_leave_the_sample_out():
    # r - mean of others = -2, 2
    assert of(Stepwise(reward_baseline="loo", weight=0.0)) == [[-2.0, -2.0], [2.0, 2.0]]


def test_lambda_halves_by_rounds_and_never_at_round_zero():
    halving = Stepwise(halve_every=3)
    for round, weight in ((0, 0.5), (2, 0.5), (3, 0.25), (6, 0.125)):
        assert of(halving, round=round) == of(Stepwise(weight=weight))


def test_lambda_can_grow_with_the_denoising_step():
    # T = 2: lambda is 0.25 at step 0 and 0.5 at step 1, so w = 1/5 and 1/3
    # surplus of the guesses: -+ 0.5 at rank 0 (step 0), -+ 0.25 at rank 1 (step 1)
    growing = Stepwise(growth="linear")
    assert of(growing) == [
        pytest.approx([-1 + 0.5 / 5, -1 + 0.25 / 3]),
        pytest.approx([1 - 0.5 / 5, 1 - 0.25 / 3]),
    ]
    # not normalised: (1 + lambda) (r - mean) - lambda surplus
    assert of(Stepwise(growth="linear", normalise=False)) == [
        pytest.approx([-1.25 + 0.5 / 4, -1.5 + 0.25 / 2]),
        pytest.approx([1.25 - 0.5 / 4, 1.5 - 0.25 / 2]),
    ]
    # a row that chose step 1 first has the larger lambda first
    rollout = played([[1, 2]] * 2, [[0, 1]] * 2, group_size=2)
    found = growing(
        inputs.rewards(FINAL), inputs.rewards(GUESS.flatten()), chosen([[1, 0], [0, 1]]), rollout, 0
    )
    assert found[0].tolist() == pytest.approx([-1 + 0.5 / 3, -1 + 0.25 / 5])
    assert found[1].tolist() == of(growing)[1]


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("normalise", [True, False])
@given(case=scored_groups())
def test_identity_with_the_centred_returns(weight, normalise, case):
    reward_B, reward_BK, G = case
    found = credit(Stepwise(weight=weight, normalise=normalise), reward_B, reward_BK, G).double()
    reward_B1, guess_BK = reward_B.double().unsqueeze(1), reward_BK.double()
    returns_BK = reward_B1 + weight * (reward_B1 - guess_BK)
    if normalise:
        returns_BK = returns_BK / (1 + weight)
    grouped = returns_BK.view(-1, G, returns_BK.shape[1])
    expected = (grouped - grouped.mean(1, keepdim=True)).flatten(0, 1)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-5)


@given(case=scored_groups())
def test_weight_zero_is_group_relative_bit_for_bit(case):
    reward_B, reward_BK, G = case
    plain = credit(ADVANTAGES.get("group_relative")(), reward_B, None, G)
    for normalise in (True, False):
        for previews in (reward_BK, -3 * reward_BK):
            found = credit(Stepwise(weight=0.0, normalise=normalise), reward_B, previews, G)
            assert torch.equal(found, plain.expand_as(found))


@pytest.mark.parametrize("centre", ["rank", "loo_rank"])
@given(case=scored_groups())
def test_groups_sum_to_zero_at_each_rank(centre, case):
    reward_B, reward_BK, G = case
    found = credit(Stepwise(centre=centre), reward_B, reward_BK, G)
    sums = found.view(-1, G, found.shape[1]).sum(1)
    torch.testing.assert_close(sums, torch.zeros_like(sums), rtol=0, atol=1e-5)


def test_equal_final_rewards_still_give_stepwise_credit():
    # A = -(g - mean g) / 3 with guesses 0 and 1
    found = credit(Stepwise(), torch.tensor([2.0, 2.0]), torch.tensor([[0.0], [1.0]]), 2)
    assert found.flatten().tolist() == pytest.approx([0.5 / 3, -0.5 / 3])


def test_several_guesses_of_a_state_are_averaged():
    # ordered (b k n): state (0, 0) has rewards 0 and 4, (0, 1) 1 and 1, (1, 0) 3 and 5, (1, 1) 0, 2
    rollout = played([[1, 2]] * 2, [[0, 1]] * 2, group_size=2)
    steps = chosen([[0, 1], [0, 1]])
    guesses = inputs.rewards(torch.tensor([0.0, 4.0, 1.0, 1.0, 3.0, 5.0, 0.0, 2.0]))
    found = Stepwise(guesses=2)(inputs.rewards(FINAL), guesses, steps, rollout, 0)
    means = inputs.rewards(torch.tensor([2.0, 1.0, 4.0, 1.0]))
    assert torch.equal(found, Stepwise()(inputs.rewards(FINAL), means, steps, rollout, 0))


def test_an_abstained_guess_is_averaged_over_the_others_and_alone_falls_back():
    rollout = played([[1]] * 3, [[0]] * 3, group_size=3)
    final = inputs.rewards(torch.tensor([0.0, 3.0, 0.0]))
    counted = torch.tensor([True, False, True, True, False, False])
    guesses = inputs.rewards(torch.tensor([2.0, 9.0, 1.0, 3.0, 7.0, 7.0]), counted)
    found = Stepwise(guesses=2)(final, guesses, chosen([[0]] * 3), rollout, 0)
    # guesses 2, 2, none: their mean is 2, so all are judged by r - 1
    assert found.flatten().tolist() == pytest.approx([-1.0, 2.0, -1.0])


def test_unused_entries_are_out_of_the_mean_and_fall_back_to_the_final_reward():
    rollout = played([[1, 2]] * 3, [[0, 1]] * 3, group_size=3)
    final = inputs.rewards(torch.tensor([0.0, 3.0, 0.0]))
    steps = chosen([[0, 1]] * 3, [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    guesses = inputs.rewards(torch.tensor([0.0, 0.0, 0.0, 99.0, 0.0, 3.0]))
    found = Stepwise()(final, guesses, steps, rollout, 0)
    # rank 1: guesses 0 and 3, mean 1.5: -1 + 1.5 / 3, 2, -1 - 1.5 / 3
    assert found[:, 1].tolist() == pytest.approx([-0.5, 2.0, -1.5])


def test_abstained_rows_are_out_of_every_mean_and_get_nothing():
    counted_B = torch.tensor([True, False, True])
    found = credit(
        Stepwise(),
        torch.tensor([1.0, 50.0, 3.0]),
        torch.tensor([[0.0], [60.0], [1.0]]),
        3,
        counted_B=counted_B,
    )
    alone = credit(Stepwise(), FINAL, GUESS[:, :1], 2)
    assert torch.equal(found, torch.stack([alone[0], torch.zeros(1), alone[1]]))


@pytest.mark.parametrize("centre", ["rank", "own", "step", "loo_rank"])
@pytest.mark.parametrize("standard", [True, False])
def test_a_group_with_one_counted_row_gives_nothing(centre, standard):
    advantage = Stepwise(centre=centre, standard_returns=standard)
    assert of(advantage, counted_B=torch.tensor([True, False])) == [[0.0, 0.0], [0.0, 0.0]]


def test_guesses_can_be_rewarded_by_the_last_component_alone():
    rollout = played([[1]] * 2, [[0]] * 2, group_size=2)
    guesses = replace(
        inputs.rewards(torch.tensor([10.0, 20.0])),
        part_XC=torch.tensor([[9.0, 0.0], [9.0, 3.0]]),
        outcome_XC=torch.zeros(2, 2, dtype=torch.int8),
        names=("a", "b"),
    )
    found = Stepwise(preview_reward="last_component")(
        inputs.rewards(FINAL), guesses, chosen([[0], [0]]), rollout, 0
    )
    # guesses 0 and 3: -1 + 1.5 / 3, 1 - 1.5 / 3
    assert found.flatten().tolist() == pytest.approx([-0.5, 0.5])


def test_missing_guesses_or_steps_are_refused():
    rollout = played([[1]] * 2, [[0]] * 2, group_size=2)
    with pytest.raises(UsageError, match="one-shot guesses"):
        Stepwise()(inputs.rewards(FINAL), None, chosen([[0], [0]]), rollout, 0)


def test_a_wrong_number_of_guesses_is_refused():
    rollout = played([[1]] * 2, [[0]] * 2, group_size=2)
    steps = Steps(torch.zeros(2, 1).long(), torch.ones(2, 1).long(), torch.ones(2, 1))
    with pytest.raises(UsageError, match="2 samples x 1 steps x 3 guesses make 6"):
        Stepwise(guesses=3)(inputs.rewards(FINAL), inputs.rewards(FINAL), steps, rollout, 0)
