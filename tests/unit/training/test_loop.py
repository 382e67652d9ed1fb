"""A round: who gets which prompt, which plan is scored when, and what is left for the updates."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch

from dllmzoo.records import Key, take
from dllmzoo.scoring import score
from dllmzoo.training import loop
from dllmzoo.training.loop import collect, split_groups, train
from dllmzoo.training.meter import Meter
from dllmzoo.training.sampling import draw, sample
from dllmzoo.zoo import LIKELIHOODS
from tests.unit.training.small import Digits, Ranks, budget, digit_sum, flat, learner, method


def round_of(parts=None, **changes):
    """The experience of one round."""
    made = learner()
    return collect(parts or method(), budget(**changes), made, Meter(made.accelerator), 3, 1), made


@pytest.mark.parametrize("parts", range(1, 6))
def test_minibatches_are_whole_groups_and_cover_every_row_once(parts):
    group_B = torch.arange(10).repeat_interleave(3)
    split = split_groups(group_B, parts, Key(0, 0, "minibatch"), 10)
    assert len(split) == parts
    assert sorted(torch.cat(split).tolist()) == list(range(30))
    for rows in split:
        assert all(int((group_B[rows] == g).sum()) in (0, 3) for g in range(10))


def test_minibatches_are_those_of_the_whole_round_on_every_process():
    group_B = torch.arange(8).repeat_interleave(2)
    key = Key(0, 0, "minibatch")
    whole = split_groups(group_B, 3, key, 8)
    halves = [split_groups(group_B[rows], 3, key, 8) for rows in torch.arange(16).chunk(2)]
    for m in range(3):
        together = [group_B[8 * half + rows] for half in (0, 1) for rows in [halves[half][m]]]
        assert torch.cat(together).tolist() == group_B[whole[m]].tolist()


def test_minibatches_are_shuffled_anew_in_each_pass_and_never_when_there_is_one():
    group_B = torch.arange(8)
    first, second = (split_groups(group_B, 4, Key(0, 0, "minibatch", p), 8) for p in (0, 1))
    assert torch.cat(first).tolist() != torch.cat(second).tolist()
    assert split_groups(group_B, 1, Key(0, 0, "minibatch"), 8)[0].tolist() == list(range(8))


@pytest.mark.parametrize("world", [1, 2, 4])
def test_processes_share_the_prompts_in_whole_groups(world):
    def share(accelerator):
        prompts = draw(method(), budget(), learner(accelerator=accelerator), Key(0, 0, "prompts"))
        return [
            (int(g), int(s), example["text"], tokens[real].tolist())
            for g, s, example, tokens, real in zip(
                prompts.group_B, prompts.sample_B, prompts.examples, prompts.tokens_BL,
                prompts.attend_BL, strict=True,
            )
        ]  # fmt: skip

    parts = Ranks(world).run(share)
    assert [len(part) for part in parts] == [16 // world] * world
    rows = sorted(row for part in parts for row in part)
    assert [row[:2] for row in rows] == [(i // 4, i) for i in range(16)]
    assert rows == Ranks(1).run(share)[0]


def test_the_rollout_batch_changes_no_answer():
    parts, made = method(), learner()
    prompts = draw(parts, budget(), made, Key(3, 1, "prompts"))
    assert len({int(n) for n in prompts.attend_BL.sum(1)}) > 1, "prompts of unlike length"
    key = Key(3, 1, "sample")
    whole = sample(parts.sampler, made.policy, prompts, key, 16)
    for batch in (1, 3, 5):
        again = sample(parts.sampler, made.policy, prompts, key, batch)
        assert torch.equal(again.tokens_BL, whole.tokens_BL)
        assert torch.equal(again.reveal_BL, whole.reveal_BL)
        assert again.forwards == whole.forwards
        torch.testing.assert_close(again.logprob_BL, whole.logprob_BL, rtol=1e-6, atol=1e-6)


def test_a_prompt_alone_is_answered_as_in_a_padded_batch():
    parts, made = method(), learner()
    prompts = draw(parts, budget(), made, Key(3, 1, "prompts"))
    whole = sample(parts.sampler, made.policy, prompts, Key(3, 1, "sample"), 16)
    for row in range(0, 16, 5):
        one = take(prompts, torch.tensor([row]))
        start = int((~one.attend_BL[0]).sum())
        one = replace(one, tokens_BL=one.tokens_BL[:, start:], attend_BL=one.attend_BL[:, start:])
        alone = parts.sampler(made.policy, one, Key(3, 1, "sample"))
        assert torch.equal(alone.tokens_BL[0], whole.tokens_BL[row, start:])


def test_the_score_of_every_step_is_what_the_sampler_recorded():
    # the sum over a step of the sampler's own log-probs, mask token excluded from what it draws:
    # they differ by the log of the mass left for the other tokens
    parts = method(selector="all", advantage="group_relative")
    seen, made = round_of(parts)
    rollout, views = seen.rollout, seen.views[0]
    forbidden = log_mass_without_mask(made.policy, rollout, views)
    expected_BKL = torch.where(views.score_BKL, rollout.logprob_BL.unsqueeze(1) + forbidden, 0)
    torch.testing.assert_close(seen.old[0].float(), expected_BKL.float(), rtol=0, atol=2e-5)


def log_mass_without_mask(policy, rollout, views):
    """log(1 - p(mask)) at every slot of every view."""
    B, K, L = views.hide_BKL.shape
    tokens_BKL = rollout.tokens_BL.unsqueeze(1).expand(B, K, L)
    noised = tokens_BKL.masked_fill(views.hide_BKL, policy.mask_id).reshape(B * K, L)
    attend = rollout.attend_BL.repeat_interleave(K, 0)
    with torch.no_grad():
        prob = policy(noised, attend).logits.softmax(-1)
    return torch.log1p(-prob[..., policy.mask_id]).view(B, K, L)


def test_rewards_and_guesses_are_paired_with_their_own_rows():
    seen, made = round_of()
    N = 6
    texts = made.codec.texts(seen.rollout.tokens_BL[:, -N:])
    expected = [digit_sum(text) / 24 for text in texts]
    assert seen.rewards.total_X.tolist() == pytest.approx(expected)
    assert seen.guess_BKL.shape[:2] == (16, 2)
    for b in range(16):
        for k in range(2):
            text = made.codec.texts(seen.guess_BKL[b, k : k + 1, -N:])[0]
            reward = seen.previews.total_X[2 * b + k].item()
            assert reward == pytest.approx(digit_sum(text) / 24)
            hidden = seen.rollout.reveal_BL[b] >= seen.steps.start_BK[b, k]
            kept = ~hidden
            assert torch.equal(seen.guess_BKL[b, k][kept], seen.rollout.tokens_BL[b][kept])


def test_sampled_guesses_make_n_previews_of_each_state():
    seen, _ = round_of(method(advantage=("stepwise_one_shot", {"guesses": 3})))
    assert seen.guess_BKL.shape[:2] == (16, 6)
    assert len(seen.previews.total_X) == 96
    assert seen.advantage_BA.shape == (16, 2)


def test_a_plan_that_is_not_random_serves_all_passes_and_is_scored_once():
    seen, _ = round_of(passes=3)
    assert len(seen.views) == len(seen.old) == 3
    assert len({id(views) for views in seen.views}) == len({id(old) for old in seen.old}) == 1


def test_pass_p_scores_plan_p():
    elbo = LIKELIHOODS.get("elbo")(views=2)
    parts = method(
        likelihood=elbo, selector=None, advantage="group_relative",
        loss=("clipped_surrogate", {"kl": "k3"}),
    )  # fmt: skip
    seen, made = round_of(parts, passes=3)
    for p in range(3):
        plan = elbo.plan(seen.rollout, None, Key(3, 1, "views", p), 3)
        assert torch.equal(seen.views[p].hide_BKL, plan.hide_BKL)
        assert seen.anchor_views[p] is seen.views[p]
        for network, found in ((made.policy, seen.old), (made.reference, seen.reference)):
            again = score(network, seen.rollout, plan, micro_batch=7).logprob_BKL
            torch.testing.assert_close(found[p], again)
    assert not torch.equal(seen.views[0].hide_BKL, seen.views[1].hide_BKL)


def test_masks_that_are_not_shared_get_a_plan_of_their_own():
    elbo = LIKELIHOODS.get("elbo")(views=2, shares_masks=False)
    parts = method(likelihood=elbo, selector=None, advantage="group_relative", loss="stable_drl")
    seen, made = round_of(parts, passes=2)
    for p in range(2):
        plan = elbo.plan(seen.rollout, None, Key(3, 1, "old_views", p), 2)
        assert torch.equal(seen.anchor_views[p].hide_BKL, plan.hide_BKL)
        assert not torch.equal(seen.views[p].hide_BKL, plan.hide_BKL)
        again = score(made.policy, seen.rollout, plan, micro_batch=7).logprob_BKL
        torch.testing.assert_close(seen.old[p], again)


@dataclass(frozen=True)
class Silent:
    """A loss that reads neither old nor reference."""

    units: ClassVar[frozenset[Any]] = frozenset({"step"})
    needs_old: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    needs_exact_kl: ClassVar[bool] = False

    def __call__(self, new, old, reference, advantage_BU, units):
        assert old is None and reference is None
        return -units.mean(advantage_BU * new.score_BU, "unit"), {}


def test_what_a_loss_does_not_read_is_not_scored(monkeypatch):
    calls = []
    monkeypatch.setattr(loop, "score", lambda *a, **k: calls.append(a) or score(*a, **k))
    seen, _ = round_of(method(loss=Silent(), advantage="group_relative"))
    assert len(calls) == 1 and seen.reference == ()


@pytest.mark.parametrize("abstain", ["odd", "all"])
def test_abstained_rewards_teach_nothing_and_break_nothing(abstain):
    parts = method(task=Digits(abstain=abstain), loss=("clipped_surrogate", {"kl": "none"}))
    made = learner(lr=0.1)
    before = flat(made.policy)
    rounds = list(train(parts, budget(passes=2), made, seed=3, rounds=range(2)))
    for _, meter, seen in rounds:
        row = meter.row()
        silent = ~seen.rewards.counted_X
        assert silent.any() and not seen.advantage_BA[silent].any()
        assert seen.advantage_BA.isfinite().all() and row["loss"] is not None
        assert row["reward_abstained/digits"] == int(silent.sum())
        if abstain == "all":
            assert row["reward"] is None and row["preview_reward"] is None
            assert "reward_std" not in row and row["reward_zero_std_share"] == 1.0
            assert row["grad_norm"] == 0.0
    assert torch.equal(flat(made.policy), before) == (abstain == "all")


def test_the_loop_goes_on_where_it_is_told_with_the_same_numbers():
    parts, sizes = method(), budget(passes=2, minibatches=2)
    whole, cut = learner(lr=0.05), learner(lr=0.05)
    list(train(parts, sizes, whole, seed=3, rounds=range(4)))
    list(train(parts, sizes, cut, seed=3, rounds=range(2)))
    list(train(parts, sizes, cut, seed=3, rounds=range(2, 4)))
    assert torch.equal(flat(cut.policy), flat(whole.policy))


def test_the_global_generator_is_never_touched():
    torch.manual_seed(11)
    before = torch.random.get_rng_state()
    list(train(method(), budget(minibatches=2), learner(), seed=3, rounds=range(1)))
    assert torch.equal(torch.random.get_rng_state(), before)
