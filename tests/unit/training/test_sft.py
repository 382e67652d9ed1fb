"""Supervised training: its masks, its weights, its loss."""

import itertools
from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.records import Key, take
from dllmzoo.training.reads import Read
from dllmzoo.training.sft import Demonstrations, as_rollout, noise, noise_levels, train
from dllmzoo.zoo import SCHEDULES
from tests.unit.training.small import Digits, Ranks, budget, codec, flat, learner, network

LINEAR = SCHEDULES.get("linear")()


def data(**changes):
    return replace(Demonstrations(Digits(), 4, LINEAR), **changes)


def demonstrated(which, rows=6):
    made = codec(network())
    examples = which.task.draw(rows, Key(3, 0, "prompts"))
    drawn = made.demonstrations(which.task, examples, Key(3, 0, "a"), answer_length=4)
    return as_rollout(which, drawn)


def test_only_answers_are_hidden_unless_the_prompt_is_trained_too():
    key = Key(3, 0, "views")
    rollout = demonstrated(data(), 64)
    views = noise(data(), rollout, key)
    assert torch.equal(views.hide_BKL, views.score_BKL)
    assert not (views.hide_BKL[:, 0] & ~rollout.answer_BL).any()
    both = noise(data(completion_only=False), rollout, key).hide_BKL[:, 0]
    assert (both & ~rollout.answer_BL).any() and not (both & ~rollout.attend_BL).any()
    # t is uniform in (0, 1]: half of all answer slots on average; 256 slots of 64 levels
    assert views.hide_BKL.sum().item() / rollout.answer_BL.sum().item() == pytest.approx(
        0.5, abs=0.12
    )


def test_the_weight_is_the_inverse_mask_probability_down_to_the_smallest():
    # linear: m(t) = t, rate 1, so the weight is 1 / max(t, min_mask)
    rollout = demonstrated(data(), 64)
    key = Key(3, 0, "views")
    t_B1 = 1 - key.uniform(rollout.sample_B, 1)
    views = noise(data(min_mask=0.4), rollout, key)
    expected_B1 = 1 / t_B1.clamp(min=0.4)
    torch.testing.assert_close(views.weight_BKL[:, 0, :1], expected_B1)
    assert views.weight_BKL.max().item() == pytest.approx(2.5)


def test_the_weight_of_a_curved_schedule_is_its_rate_over_its_mask_probability():
    rollout, key = demonstrated(data(), 64), Key(3, 0, "views")
    cosine = SCHEDULES.get("cosine")()
    t_B1 = 1 - key.uniform(rollout.sample_B, 1)
    views = noise(replace(data(min_mask=0.01), schedule=cosine), rollout, key)
    expected_B1 = cosine.rate(t_B1) / cosine.mask_prob(t_B1).clamp(min=0.01)
    torch.testing.assert_close(views.weight_BKL[:, 0, :1], expected_B1)


def blocks(which, size=2, rows=6):
    return replace(demonstrated(which, rows), block_size=size)


def test_a_block_network_has_a_noise_level_for_each_block_evenly_apart():
    rollout, key = blocks(data()), Key(3, 0, "views")
    t_BL = noise_levels(data(), rollout, key)
    drawn_B1 = key.uniform(rollout.sample_B, 1)
    # 4 answer slots behind an odd prompt lie in 3 blocks of 2, behind an even one in 2
    prompt_B1 = (rollout.attend_BL & ~rollout.answer_BL).sum(1, keepdim=True)
    count_B1 = 2 + prompt_B1 % 2
    rank_BL = rollout.block_BL.clamp(min=0) - prompt_B1 // 2
    expected_BL = 1 - (drawn_B1 + rank_BL / count_B1) % 1
    answer_BL = rollout.answer_BL
    torch.testing.assert_close(t_BL[answer_BL], expected_BL[answer_BL])
    levels = [row[keep].unique().tolist() for row, keep in zip(t_BL, answer_BL, strict=True)]
    assert [len(each) for each in levels] == count_B1[:, 0].tolist()
    for each in levels:  # evenly apart, whatever stands before the answer
        assert [b - a for a, b in itertools.pairwise(each)] == pytest.approx(
            [1 / len(each)] * (len(each) - 1), abs=1e-6
        )
    assert noise(data(), rollout, key).layout == "dual_stream"


def test_each_level_is_uniform_over_the_whole_range():
    rollout = blocks(data(), rows=400)
    last_B = noise_levels(data(), rollout, Key(3, 0, "views"))[:, -1]
    # 400 numbers: the mean has a standard error of .289 / 20 = .0144
    assert last_B.mean().item() == pytest.approx(0.5, abs=0.05)
    assert last_B.min() > 0 and last_B.max() <= 1


def test_a_row_may_have_one_level_in_a_block_network_too():
    rollout, key = blocks(data()), Key(3, 0, "views")
    t_BL = noise_levels(data(noise="row"), rollout, key)
    assert torch.equal(t_BL, (1 - key.uniform(rollout.sample_B, 1)).expand_as(t_BL))
    assert noise(data(noise="row"), rollout, key).layout == "dual_stream"


def test_levels_of_blocks_need_blocks():
    with pytest.raises(UsageError, match=r"sft\.noise: row"):
        noise_levels(data(noise="block"), demonstrated(data()), Key(3, 0, "views"))


def test_masks_do_not_depend_on_padding_or_neighbours():
    rollout = demonstrated(data())
    key = Key(3, 0, "views")
    whole = noise(data(), rollout, key).hide_BKL
    alone = noise(data(), take(rollout, torch.tensor([4])), key).hide_BKL
    assert torch.equal(alone[0], whole[4])
    pad = torch.nn.functional.pad
    wide = replace(
        rollout, tokens_BL=pad(rollout.tokens_BL, (3, 0)), attend_BL=pad(rollout.attend_BL, (3, 0)),
        answer_BL=pad(rollout.answer_BL, (3, 0)), valid_BL=pad(rollout.valid_BL, (3, 0)),
    )  # fmt: skip
    assert torch.equal(noise(data(), wide, key).hide_BKL[..., 3:], whole)


def by_blocks(policy, rollout, noised_BL):
    """Logits of each block noised behind clean blocks, by one forward for each block."""
    block_BL = rollout.block_BL.unsqueeze(2)
    logits_BLV = 0
    for block in range(int(rollout.block_BL.max()) + 1):
        mixed_BL = torch.where(rollout.block_BL == block, noised_BL, rollout.tokens_BL)
        found_BLV = policy(mixed_BL, rollout.attend_BL).logits
        logits_BLV = logits_BLV + torch.where(block_BL == block, found_BLV, 0)
    return logits_BLV


@pytest.mark.parametrize("family", ["llada", "sdar"])
@pytest.mark.parametrize("completion_only", [True, False])
def test_the_loss_is_weighted_nats_per_token_by_direct_differentiation(completion_only, family):
    which = data(completion_only=completion_only)
    made = learner(network(family=family), lr=1.0)
    before = flat(made.policy)
    (_, meter, seen) = next(
        train(which, budget(prompts=6, max_grad_norm=None), made, seed=3, rounds=range(1))
    )
    assert seen is None
    policy = network(family=family).train()
    rollout = as_rollout(
        which, made.codec.demonstrations(
            which.task, which.task.draw(6, Key(3, 0, "prompts")),
            Key(3, 0, "prompts").sub("answers"), answer_length=4,
        ), policy.block_size,
    )  # fmt: skip
    views = noise(which, rollout, Key(3, 0, "views"))
    hide_BL, weight_BL = views.hide_BKL[:, 0], views.weight_BKL[:, 0]
    noised_BL = rollout.tokens_BL.masked_fill(hide_BL, policy.mask_id)
    if family == "sdar":  # a block at a time, behind its clean past: what one pass stands for
        logits_BLV = by_blocks(policy, rollout, noised_BL)
    else:
        logits_BLV = policy(noised_BL, rollout.attend_BL).logits
    logprob_BLV = logits_BLV.log_softmax(-1)
    logprob_BL = logprob_BLV.gather(2, rollout.tokens_BL.unsqueeze(2)).squeeze(2)
    tokens = 6 * 4 if completion_only else int(rollout.attend_BL.sum())
    loss = -(logprob_BL * weight_BL * hide_BL).sum() / tokens
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in policy.parameters()])
    torch.testing.assert_close(before - flat(made.policy), expected, rtol=0, atol=1e-5)
    row = meter.row()
    assert row["loss"] == pytest.approx(loss.item(), rel=1e-6)
    assert row["grad_norm"] == pytest.approx(expected.norm().item(), rel=1e-5)
    share = int(hide_BL.sum()) / int(rollout.attend_BL.sum())
    assert row["masked_share"] == pytest.approx(share)
    ran = (int(hide_BL.any(1).sum()), rollout.tokens_BL.shape[1], int(hide_BL.sum()), True)
    (read,) = meter.forwards
    assert read._replace(target=0) == Read(*ran)
    assert (read.target > 0) == (family == "sdar")


@pytest.mark.parametrize("completion_only", [True, False])
def test_processes_and_micro_batches_change_no_weight(completion_only):
    which = data(completion_only=completion_only)

    def trained(world, micro_batch):
        def work(accelerator):
            made = learner(accelerator=accelerator, lr=0.1)
            sizes = budget(prompts=8, micro_batch=micro_batch)
            rows = [
                meter.row() for _, meter, _ in train(which, sizes, made, seed=3, rounds=range(2))
            ]
            return flat(made.policy), rows

        return Ranks(world).run(work)[0]

    weights, rows = trained(1, 64)
    for world, micro_batch in ((1, 1), (2, 3), (4, 64)):
        again, again_rows = trained(world, micro_batch)
        torch.testing.assert_close(again, weights, rtol=0, atol=1e-8)
        for one, other in zip(rows, again_rows, strict=True):
            for key in ("loss", "grad_norm", "masked_share"):
                assert other[key] == pytest.approx(one[key], rel=1e-6)
