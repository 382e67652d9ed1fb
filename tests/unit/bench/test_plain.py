"""Ours and plain are the same work: equal tokens, equal log-probs, equal gradients."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.bench import blocks, plain, rollouts, states
from dllmzoo.bench.place import Place
from dllmzoo.bench.sizes import SIZES
from dllmzoo.records import Key
from dllmzoo.scoring import replay, score
from dllmzoo.zoo import SAMPLERS

TINY = Place(SIZES["tiny"])


@pytest.fixture(scope="module")
def network():
    return TINY.network("llada")


@pytest.fixture(scope="module")
def wide():
    """A vocabulary in which two equal probabilities are no surprise that a test may meet."""
    fields = dict(SIZES["tiny"].llada) | {
        "vocab_size": 300, "mask_token_id": 299, "eos_token_id": 298,
    }  # fmt: skip
    return Place(replace(SIZES["tiny"], llada=fields)).network("llada")


def test_greedy_rollouts_have_equal_tokens_and_steps_from_the_first_to_the_last(wide):
    size = TINY.size
    words_BL = TINY.tokens(size.rows, size.prompt, wide.config.vocab_size)
    sampler = SAMPLERS.get("low_confidence")(
        answer_length=size.answer, block_length=size.block, steps=size.steps, temperature=0.0
    )
    made = sampler(wide, TINY.prompts(words_BL), Key(0, 0, "sample"))
    tokens_BL, reveal_BL = plain.rollout(wide, words_BL, size.answer, size.block, size.steps, 0.0)
    assert torch.equal(made.tokens_BL, tokens_BL)
    assert torch.equal(made.reveal_BL, reveal_BL)
    assert int(reveal_BL.max()) == size.steps - 1


@pytest.mark.parametrize("step", SIZES["tiny"].measured(SIZES["tiny"].steps))
def test_a_measured_step_commits_what_the_plain_step_commits(wide, step):
    size, mask = TINY.size, wide.mask_id
    seconds, ours_BL = rollouts.our_step(TINY, wide, step, 0.0)
    _, plain_BL = rollouts.plain_step(TINY, wide, step, 0.0, record=[])
    assert seconds > 0
    assert torch.equal(ours_BL, plain_BL)
    filled = size.state(step)[0] + size.commits
    assert ours_BL.shape == (size.rows, size.length)
    assert ((ours_BL != mask).sum(1) == size.prompt + filled).all()


def test_a_sampled_step_commits_as_many_slots_of_the_active_block(network):
    size, step = TINY.size, 3  # the first block: three steps of two commits before
    _, after_BL = rollouts.our_step(TINY, network, step, 0.9)
    written_BL = after_BL[:, size.prompt + 6 :] != network.mask_id
    assert written_BL.sum(1).tolist() == [2] * size.rows
    assert not written_BL[:, 10:].any()  # 16 - 6 slots are left of the block


def test_plain_noise_follows_the_softmax_at_a_temperature():
    torch.manual_seed(0)
    logits = torch.tensor([0.0, 1.0]).expand(1, 20000, 2)
    share = plain.gumbel(logits, 0.5).argmax(-1).double().mean()
    # exp(1 / 0.5) / (1 + exp(1 / 0.5)) = 0.8808, and the standard error is 0.0023
    assert share == pytest.approx(0.8808, abs=0.01)


def test_the_recorder_keeps_the_vocabulary_only_if_asked(network):
    tokens_BL = torch.full((2, 8), network.mask_id)
    record = []
    for store in (False, True):
        plain.denoise(network, tokens_BL, 8, 3, 0.0, record, store=store)
    (commit_BL, sure_BL, nothing), (_, _, kept_BLV) = record
    assert commit_BL.sum(1).tolist() == [3, 3] and nothing is None
    assert (sure_BL[commit_BL] <= 0).all()
    torch.testing.assert_close(kept_BLV.exp().sum(-1), torch.ones(2, 8))


def test_log_probs_of_states_are_equal(network):
    made = states.rollout(TINY, network, 4)
    _, views = states.views(made, 4)
    ours_BKL = score(network, made, views, micro_batch=3).logprob_BKL
    with torch.no_grad():
        each = plain.scored(network, made.tokens_BL, views.hide_BKL, views.temperature)
        plain_BKL = torch.stack([logprob_BL for _, logprob_BL in each], 1)
    assert views.temperature == 0.9 and int(views.score_BKL.sum()) == 4 * 4 * 2
    expected_BKL = torch.where(views.score_BKL, plain_BKL, 0)
    torch.testing.assert_close(ours_BKL, expected_BKL, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("what", ["states", "whole answer"])
def test_gradients_are_equal(what):
    network = TINY.network("llada").train()
    made = states.rollout(TINY, network, 4)
    views = states.views(made, 4)[1] if what == "states" else states.whole_answer(made)
    grad_BKL = states.gradient(views.score_BKL)
    plain.accumulate(network, made.tokens_BL, views.hide_BKL, grad_BKL, views.temperature)
    expected = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    replay(network, made, views, grad_BKL, micro_batch=3)
    for parameter, wanted in zip(network.parameters(), expected, strict=True):
        difference = (parameter.grad - wanted).norm() / wanted.norm().clamp(min=1e-12)
        assert float(difference) <= 1e-5


def test_a_made_rollout_is_one_that_the_sampler_could_leave(network):
    made = states.rollout(TINY, network, 3)
    size = TINY.size
    reveal_BN = made.reveal_BL[:, size.prompt :]
    for step in (0, 7, 8, size.steps - 1):  # 8 steps a block of 16
        columns = (reveal_BN == step).nonzero()[:, 1].view(3, 2)
        assert (columns // size.block == step // 8).all()
    assert (made.reveal_BL[:, : size.prompt] == -1).all()


def test_the_elbo_of_blocks_is_the_same_in_three_ways():
    given = blocks.ElboInputs.draw(TINY, TINY.network("sdar"))
    found = {name: way(given) for name, way in blocks.ELBO_WAYS.items()}
    torch.testing.assert_close(found["cached"], found["one_pass"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["uncached"], found["one_pass"], rtol=1e-4, atol=1e-4)
    share = given.hide_BL[:, TINY.size.prompt :].double().mean()
    assert share == pytest.approx(0.625, abs=0.1)  # the mean of 1, 2, 3, 4 of 4
