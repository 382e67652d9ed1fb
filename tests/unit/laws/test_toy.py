"""Unit test of the enumerable policy, against sums that were done by hand."""

import math

import pytest
import torch

from dllmzoo.laws import inputs, toy
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.scoring import score


def flat_policy() -> toy.TableDenoiser:
    """Every token has probability 1/2 in every state."""
    policy = toy.TableDenoiser(2)
    torch.nn.init.zeros_(policy.table)
    return policy


def two_slots() -> toy.TableDenoiser:
    """Slot 1 is 1 with probability 3/4 if slot 0 holds a 1, all else is a fair coin."""
    policy = flat_policy()
    # state (1, mask): 1 * 3^0 + 2 * 3^1 = 7
    with torch.no_grad():
        policy.table[7, 1] = torch.tensor([0.0, math.log(3)])
    return policy


def test_logits_are_those_of_the_state_and_the_mask_is_impossible():
    policy = two_slots()
    logits_BLV = policy(torch.tensor([[9, 1, 2]])).logits
    # one position of prompt, then the two slots
    prob_BLV = logits_BLV.softmax(-1)
    expected = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.25, 0.75, 0.0]]
    torch.testing.assert_close(prob_BLV[0], torch.tensor(expected, dtype=torch.float64))
    wanted = policy(torch.tensor([[9, 1, 2]]), logits_at=torch.tensor([[False, False, True]]))
    torch.testing.assert_close(wanted.logits, logits_BLV[0, 2:])


def test_trajectories_are_all_orders_times_all_answers():
    assert toy.orders((1, 1)).tolist() == [[0, 1], [1, 0]]
    assert toy.orders((2, 1)).tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert len(toy.trajectories((1, 1, 1)).tokens_BL) == 6 * 8
    assert len(toy.trajectories((1, 0, 2)).tokens_BL) == 3 * 8
    pairs = toy.trajectories((1, 1), repeat=2)
    assert len(pairs.tokens_BL) == (2 * 4) ** 2 * 2
    assert pairs.group_B.tolist()[:4] == [0, 0, 1, 1]


@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1), (0, 3), (1, 0, 2)])
def test_probabilities_of_all_trajectories_sum_to_one(counts):
    policy = toy.TableDenoiser(seed=4)
    total = toy.probability(policy, toy.trajectories(counts), counts).sum()
    assert total.item() == pytest.approx(1, abs=1e-12)


def test_a_chain_multiplies_what_each_state_says():
    # answer (1, 1): slot 0 first 1/2 * 3/4, slot 1 first 1/2 * 1/2
    rollout = inputs.played(torch.tensor([[1, 1], [1, 1]]), torch.tensor([[0, 1], [1, 0]]))
    found_B = toy.chain_logprob(two_slots(), rollout).exp()
    assert found_B.tolist() == pytest.approx([3 / 8, 1 / 4])


def test_the_elbo_averages_the_chain_over_orders():
    expected = (math.log(3 / 8) + math.log(1 / 4)) / 2
    assert toy.elbo(two_slots(), torch.tensor([1, 1])).item() == pytest.approx(expected)


def test_the_exact_gradient_of_a_fair_coin():
    # one slot of probability 1/2, reward 1 for token 1: J = p, dJ/dlogit_1 = p (1 - p) = 1/4
    policy = toy.TableDenoiser(1)
    torch.nn.init.zeros_(policy.table)
    grad = toy.exact_gradient(policy, torch.tensor([0.0, 1.0]), (1,))
    assert grad[2, 0].tolist() == pytest.approx([-0.25, 0.25])
    assert not grad[:2].any()


def test_guesses_fill_every_hidden_slot_with_the_likelier_token():
    policy = two_slots()
    with torch.no_grad():
        policy.table[8] = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # both hidden: guess (1, 0)
    rollout = inputs.played(torch.tensor([[1, 1]]), torch.tensor([[0, 1]]))
    assert toy.guesses(policy, rollout).tolist() == [[[1, 0], [1, 1]]]


def test_index_of_finds_an_answer_among_all():
    assert toy.index_of(toy.answers(3)).tolist() == list(range(8))


def test_the_scorer_agrees_with_the_table():
    policy, rollout = toy.TableDenoiser(seed=2), toy.trajectories()
    steps = inputs.every_step(rollout)
    from dllmzoo.zoo import LIKELIHOODS

    views = LIKELIHOODS.get("denoising_steps")().plan(rollout, steps, inputs.Case(0).key("v"), 1)
    found_BKL = score(policy, rollout, views, micro_batch=50).logprob_BKL
    exact_BKL = toy.logprobs(policy, rollout, views)
    torch.testing.assert_close(found_BKL.double(), exact_BKL.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("block_size", [None, 2])
def test_the_toy_network_ignores_padding_and_neighbours(block_size):
    policy = ToyDenoiser(1, block_size)
    row = torch.tensor([[1, 2, 6, 6]])
    alone = policy(row, torch.ones(1, 4, dtype=torch.bool)).logits[0]
    wide = torch.tensor([[5, 5, 1, 2, 6, 6], [0, 1, 2, 3, 4, 6]])
    attend = torch.tensor([[False, False, True, True, True, True], [True] * 6])
    torch.testing.assert_close(policy(wide, attend).logits[0, 2:], alone)


def test_the_toy_networks_second_stream_sees_clean_blocks_before_its_own():
    policy = ToyDenoiser(1, block_size=2)
    clean, noised = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[6, 6, 6, 4]])
    both = policy(clean, target_ids=noised).logits[0]
    # the second block: clean first block, own noised block
    alone = policy(torch.tensor([[1, 2, 6, 4]])).logits[0]
    torch.testing.assert_close(both[2:], alone[2:])
    torch.testing.assert_close(both[:2], policy(torch.tensor([[6, 6]])).logits[0])
