"""The oracle of blocks: hand numbers, the masks it plans, its limit."""

import math
from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.records import Key
from dllmzoo.scoring import score
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import played

ExactBlock = LIKELIHOODS.get("exact_block")
KEY = Key(0, 0, "views")


def in_blocks(rollout, block_size):
    return replace(rollout, block_size=block_size)


def both(logprob_BKL, rollout, **options):
    found = []
    for of in ("elbo", "loglikelihood"):
        part = ExactBlock(of=of, **options)
        views = part.plan(rollout, None, KEY, 1)
        found.append(part.pool(logprob_BKL, views, rollout, torch.zeros(1, 1)).score_BU.item())
    return found


def test_two_blocks_by_hand():
    # [p a] [b c]: views {first}, {second}, {both}. a has rank 0 in a block of one
    a, b, c, d, e = -0.7, -1.0, -2.0, -0.5, -3.0
    rollout = in_blocks(played([[1, 2, 3]], [[0, 1, 2]]), 2)
    views = ExactBlock().plan(rollout, None, KEY, 1)
    assert views.score_BKL[0].int().tolist() == [[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 1, 1]]
    assert torch.equal(views.hide_BKL, views.score_BKL)
    # 1 / (1 * 1) for the block of one, 1/2 for all three sets of the other
    assert views.weight_BKL[views.score_BKL].tolist() == pytest.approx([1.0, 0.5, 0.5, 0.5, 0.5])
    assert views.layout == "dual_stream"
    logprob_BKL = torch.tensor([[[0, a, b, 0], [0, 0, 0, c], [0, 0, d, e]]])
    elbo, log_p = both(logprob_BKL, rollout)
    # orders of [b c]: b first d + c, c first e + b
    assert elbo == pytest.approx(a + (b + c + d + e) / 2)
    assert log_p == pytest.approx(a + math.log((math.exp(d + c) + math.exp(e + b)) / 2))


def test_a_block_of_four_costs_15_passes():
    rollout = in_blocks(played([[1, 2, 3, 4, 0, 1, 2]], [list(range(7))]), 4)
    views = ExactBlock().plan(rollout, None, KEY, 1)
    assert views.score_BKL.shape[1] == 15 == ExactBlock().forwards_in_blocks(4, 0)
    assert ExactBlock.num_forwards == 255
    # blocks of 3 (behind the prompt's word) and 4 slots: 7 and 15 masks
    assert views.score_BKL[0, :, 1:4].any(1).sum() == 7
    assert views.score_BKL[0, :, 4:].any(1).sum() == 15
    assert len({tuple(row) for row in views.hide_BKL[0, :, 4:].int().tolist()}) == 15


def test_unscored_slots_behind_the_end_still_take_their_turn():
    # [p a end x]: x is behind the end; three slots, masks of three
    rollout = in_blocks(played([[1, 5, 3]], [[0, 1, 2]]), 4)
    kept = ExactBlock().plan(rollout, None, KEY, 1)
    scored = ExactBlock(tail="score_tail").plan(rollout, None, KEY, 1)
    assert torch.equal(kept.hide_BKL, scored.hide_BKL)
    assert not kept.score_BKL[..., 3].any() and scored.score_BKL[..., 3].any()
    assert (kept.size_BU.item(), scored.size_BU.item()) == (2.0, 3.0)
    # all log-probs -1 nat: a chain of two scored slots, whatever the order
    logprob_BKL = -scored.score_BKL.float()
    assert both(logprob_BKL, rollout) == pytest.approx([-2.0, -2.0])
    assert both(logprob_BKL, rollout, tail="score_tail") == pytest.approx([-3.0, -3.0])


def test_log_likelihoods_of_all_answers_add_up_to_one():
    policy = ToyDenoiser(3, 2, dtype=torch.float64)
    words = torch.cartesian_prod(*[torch.arange(7)] * 3)
    source = played(words.tolist(), [[0, 1, 2]] * len(words))
    every = torch.zeros_like(source.valid_BL)
    every[:, 1:] = True  # end tokens are words like others here
    rollout = in_blocks(replace(source, valid_BL=every), 2)
    part = ExactBlock(of="loglikelihood")
    views = part.plan(rollout, None, KEY, 1)
    logprob_BKL = score(policy, rollout, views, micro_batch=512).logprob_BKL
    total_BU = part.pool(logprob_BKL, views, rollout, torch.zeros(len(words), 1)).score_BU
    assert total_BU.exp().sum().item() == pytest.approx(1.0, abs=1e-10)


def test_gradients_do_not_reach_what_is_not_scored():
    rollout = in_blocks(played([[1, 5, 3]], [[0, 1, 2]]), 4)
    part = ExactBlock(of="loglikelihood")
    views = part.plan(rollout, None, KEY, 1)
    leaf_BKL = torch.full(views.score_BKL.shape, -1.0, requires_grad=True)
    part.pool(leaf_BKL, views, rollout, torch.zeros(1, 1)).score_BU.sum().backward()
    assert torch.equal(leaf_BKL.grad != 0, views.score_BKL)


def test_large_blocks_are_refused_with_the_limit():
    rollout = in_blocks(played([[1, 2]], [[0, 1]]), 9)
    with pytest.raises(UsageError, match=r"at most 8 tokens, and the network's blocks have 9: 2"):
        ExactBlock().plan(rollout, None, KEY, 1)
    assert ExactBlock().plan(in_blocks(rollout, 8), None, KEY, 1).score_BKL.shape[1] == 3


def test_a_network_without_blocks_is_refused():
    with pytest.raises(UsageError, match="or likelihood exact"):
        ExactBlock().plan(played([[1, 2]], [[0, 1]]), None, KEY, 1)
