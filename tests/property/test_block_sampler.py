"""Block by block with a cache is what the plain ways to say it say, token by token."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllmzoo.laws import Case, inputs
from dllmzoo.laws.models import tiny
from dllmzoo.records import Key, take
from dllmzoo.scoring import score
from dllmzoo.zoo import LIKELIHOODS, MODELS, SAMPLERS, SCHEDULES, SELECTORS
from tests.strategies import cases

Block = SAMPLERS.get("block_diffusion")
KEY = Key(5, 0, "sample")


@cache
def network(seed):
    return tiny(MODELS.get("sdar"), Case(seed))


@st.composite
def blocks(draw):
    """A network with blocks of some size, and ragged prompts."""
    policy = network(draw(st.integers(0, 3)))
    policy.config.block_size = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 40]))
    return policy, inputs.prompts(draw(cases()), width=11)


@st.composite
def samplers(draw):
    """Every option at every kind of value."""
    remask = draw(st.sampled_from(["static", "dynamic", "sequential", "entropy_bound"]))
    steps = None if remask == "entropy_bound" else draw(st.sampled_from([None, 1, 2, 3, 7]))
    return Block(
        answer_length=draw(st.integers(1, 9)),
        steps_per_block=steps,
        remask=remask,
        threshold=draw(st.sampled_from([None, 0.0, 0.4, 1.0])) if remask == "dynamic" else None,
        entropy_bound=draw(st.sampled_from([0.0, 1.5, 9.0])) if remask == "entropy_bound" else None,
        confidence=draw(st.sampled_from(["before_filters", "after_filters"])),
        temperature=draw(st.sampled_from([0.0, 0.7, 1.0])),
        top_k=draw(st.sampled_from([0, 1, 3])),
        top_p=draw(st.sampled_from([0.4, 1.0])),
        stop_at_end=draw(st.booleans()),
        commits=draw(st.sampled_from(SCHEDULES.names())),
        commits_of="masked" if steps is None else draw(st.sampled_from(["masked", "block"])),
    )  # fmt: skip


def same(found, expected, skip=0):
    """Equal answers, orders and records."""
    for name in ("tokens_BL", "reveal_BL"):
        assert torch.equal(getattr(found, name)[:, skip:], getattr(expected, name)), name
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        value, wanted = getattr(found, name)[:, skip:], getattr(expected, name)
        torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        found.block_entropy_BT, expected.block_entropy_BT, rtol=1e-4, atol=1e-4
    )


@settings(max_examples=60)
@given(blocks(), samplers())
def test_the_cache_changes_nothing(given_, sampler):
    policy, prompts = given_
    cached = sampler(policy, prompts, KEY)
    same(cached, replace(sampler, cache=False)(policy, prompts, KEY))
    bound = len(prompts.tokens_BL) * sampler.num_forwards
    assert cached.forwards == sum(rows for rows, *_ in cached.reads) <= bound


@settings(max_examples=20)
@given(blocks(), samplers(), st.integers(0, 4))
def test_rows_alone_and_behind_padding(given_, sampler, columns):
    policy, prompts = given_
    together = sampler(policy, prompts, KEY)
    pad = torch.nn.functional.pad
    for row in range(len(prompts.tokens_BL)):
        mine = take(prompts, torch.tensor([row]))
        real_L = mine.attend_BL[0]
        bare = replace(
            mine, tokens_BL=mine.tokens_BL[:, real_L], attend_BL=mine.attend_BL[:, real_L]
        )
        wide = replace(
            bare, tokens_BL=pad(bare.tokens_BL, (columns, 0)),
            attend_BL=pad(bare.attend_BL, (columns, 0)),
        )  # fmt: skip
        alone = sampler(policy, bare, KEY)
        same(sampler(policy, wide, KEY), alone, columns)
        same(take(together, torch.tensor([row])), alone, int((~real_L).sum()))


@settings(max_examples=40)
@given(blocks(), samplers())
def test_steps_are_dense_inside_blocks_and_prompts_stay(given_, sampler):
    policy, prompts = given_
    rollout = sampler(policy, prompts, KEY)
    Lp = prompts.tokens_BL.shape[1]
    assert torch.equal(rollout.tokens_BL[:, :Lp], prompts.tokens_BL)
    assert not (rollout.tokens_BL[:, Lp:] == policy.mask_id).any()
    for row in range(len(prompts.tokens_BL)):
        step_N, block_N = rollout.reveal_BL[row, Lp:], rollout.block_BL[row, Lp:]
        ran = sorted(set(step_N[step_N >= 0].tolist()))
        assert ran == list(range(len(ran)))  # no step commits nothing
        assert (rollout.block_entropy_BT[row, len(ran) :] == 0).all()
        done = [step_N[block_N == block] for block in block_N.unique()]
        for before, after in pairwise(done):
            assert (after < 0).all() or before.max() < after.min()
        if sampler.steps_per_block and sampler.remask in ("static", "sequential"):
            assert all(len(set(steps.tolist())) <= sampler.steps_per_block for steps in done)


@settings(max_examples=30)
@given(blocks(), st.integers(1, 8))
def test_blocks_of_one_token_are_left_to_right_decoding(given_, N):
    policy, prompts = given_
    policy.config.block_size = 1
    rollout = Block(answer_length=N, temperature=0.0, stop_at_end=False)(policy, prompts, KEY)
    Lp = prompts.tokens_BL.shape[1]
    tokens_BL, attend_BL = prompts.tokens_BL, prompts.attend_BL
    for _ in range(N):
        tokens_BL = torch.cat([tokens_BL, torch.full_like(tokens_BL[:, :1], policy.mask_id)], 1)
        attend_BL = torch.cat([attend_BL, torch.ones_like(attend_BL[:, :1])], 1)
        with torch.no_grad():
            logits_BV = policy(tokens_BL, attend_BL).logits[:, -1]
        logits_BV[:, policy.mask_id] = -torch.inf
        tokens_BL[:, -1] = logits_BV.argmax(-1)
    assert torch.equal(rollout.tokens_BL, tokens_BL)
    assert (rollout.reveal_BL[:, Lp:] == torch.arange(N)).all()


@settings(max_examples=30)
@given(blocks(), st.integers(1, 8), st.sampled_from([0.0, 1.0]), st.booleans())
def test_one_block_is_decoding_with_full_attention(given_, N, temperature, stop):
    policy, prompts = given_
    policy.config.block_size = 40
    options = {"answer_length": N, "temperature": temperature, "stop_at_end": stop}
    rollout = Block(**options)(policy, prompts, KEY)
    policy.config.attention = "full"
    full = SAMPLERS.get("low_confidence")(**options)(policy, prompts, KEY)
    policy.config.attention = "block_causal"
    same(rollout, full)


class Maskless:
    """A policy that never gives the mask token a share."""

    def __init__(self, policy):
        self.policy = policy

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def __call__(self, *inputs, **others):
        out = self.policy(*inputs, **others)
        out.logits[..., self.policy.mask_id] = -1e4
        return out


@settings(max_examples=30)
@given(blocks(), samplers())
def test_recorded_log_probs_are_those_of_the_scorer(given_, sampler):
    """At temperature 1 without filters: of all steps together, those of `denoising_steps`."""
    policy, prompts = given_
    policy = Maskless(policy)
    plain = replace(sampler, temperature=1.0, top_k=0, top_p=1.0)
    rollout = plain(policy, prompts, KEY)
    steps = SELECTORS.get("all")()(rollout, KEY)
    views = LIKELIHOODS.get("denoising_steps")().plan(rollout, steps, KEY, 1)
    logprob_BKL = score(policy, rollout, views, micro_batch=7).logprob_BKL
    valid = rollout.valid_BL & (rollout.reveal_BL >= 0)
    scored_BL = views.score_BKL.any(1)
    assert torch.equal(scored_BL & valid, valid)
    torch.testing.assert_close(
        logprob_BKL.sum(1)[valid], rollout.logprob_BL[valid], rtol=1e-4, atol=1e-4
    )
