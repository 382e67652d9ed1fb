"""Rollouts that read old keys and values: what they say, what they cost, when they are exact."""

from dataclasses import replace

import pytest
import torch

import dllmzoo
from dllmzoo.errors import RecipeError, UsageError
from dllmzoo.samplers._approximate_cache import ApproximateCache
from dllmzoo.zoo import SAMPLERS
from tests.unit.models.dense import FAMILIES, dense, network
from tests.unit.models.tiny import tiny, tiny_sdar
from tests.unit.samplers.test_no_waiting import DREAM, LLADA, walk
from tests.unit.samplers.toy import KEY, answer, prompts

LowConfidence = SAMPLERS.get("low_confidence")
BATCH = ([1, 2, 3, 4], [0, 5], [3])
PREFIX, DUAL = (ApproximateCache(kind=kind) for kind in ("prefix", "dual"))


@pytest.fixture(params=FAMILIES, scope="module")
def model(request):
    return network(request.param)


def close(found, expected, names=("logprob_BL", "entropy_BL", "confidence_BL")):
    assert torch.equal(found.tokens_BL, expected.tokens_BL)
    assert torch.equal(found.reveal_BL, expected.reveal_BL)
    for name in names:
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), atol=1e-5, rtol=0)


SETTINGS = [
    {"steps": 8, "temperature": 0.0},
    {"steps": 8, "temperature": 0.9},
    {"threshold": 0.5, "temperature": 0.9},
    {"steps": 4, "stop_at_end": True, "temperature": 0.9},
]


@pytest.mark.parametrize("kind", ["prefix", "dual"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_refreshed_at_every_step_it_is_exact(model, settings, kind):
    plain = LowConfidence(answer_length=12, block_length=4, **settings)
    cached = replace(plain, cache=ApproximateCache(kind=kind, refresh=1))
    found, expected = (each(model, prompts(*BATCH), KEY) for each in (cached, plain))
    close(found, expected)
    assert found.forwards == expected.forwards
    assert not cached.approximate and cached.needs_canvas_cache


@pytest.mark.parametrize("name", ["entropy", "margin", "maskgit_plus", "random_order", "tree"])
def test_refreshed_at_every_step_other_orders_are_exact_too(name):
    plain = SAMPLERS.get(name)(answer_length=8, block_length=4, steps=6)
    batch = prompts(*[[1, 2]] * 16)
    batch = replace(batch, group_B=torch.zeros_like(batch.group_B))
    cached = replace(plain, cache={"kind": "dual", "refresh": 1})
    close(cached(tiny(), batch, KEY), plain(tiny(), batch, KEY))


@pytest.mark.parametrize("refresh", [1, 2, None])
def test_texts_with_blanks_take_steps_of_their_own(refresh):
    # rows have 4, 1 and 0 blanks in the block: rows enter and leave its steps
    model = network("llada")
    batch = prompts([1, 2], [3], [4, 4])
    batch = replace(batch, answer_BN=torch.tensor([[8] * 4, [1, 8, 2, 3], [0, 1, 2, 3]]))
    plain = SAMPLERS.get("infill")(answer_length=4, steps=4, commits="share_of_rest")
    cached = replace(plain, cache={"kind": "dual", "refresh": refresh})
    found = cached(model, batch, KEY)
    if refresh == 1:
        close(found, plain(model, batch, KEY))
    for i in range(2):
        row = replace(
            prompts(BATCH[0]), tokens_BL=batch.tokens_BL[[i]], attend_BL=batch.attend_BL[[i]],
            answer_BN=batch.answer_BN[[i]], sample_B=batch.sample_B[[i]],
        )  # fmt: skip
        alone = cached(model, row, KEY)
        assert torch.equal(alone.tokens_BL[0], found.tokens_BL[i])
        torch.testing.assert_close(alone.logprob_BL[0], found.logprob_BL[i], atol=1e-5, rtol=0)


def decoded(model, batch, kind, refresh, blocks, steps, commits):
    """Greedy decoding with old keys and values, written out over dense forwards."""
    P, B, size = batch.tokens_BL.shape[1], len(batch.tokens_BL), steps * commits
    N = blocks * size
    tokens_BL = torch.cat([batch.tokens_BL, torch.full((B, N), model.mask_id)], 1)
    attend_BL = torch.cat([batch.attend_BL, torch.ones(B, N, dtype=torch.bool)], 1)
    logprob_BL, held = torch.zeros(tokens_BL.shape), None
    for block in range(blocks):
        start = P + block * size
        for step in range(steps):
            run = slice(start - model.shifted_head, P + N if kind == "prefix" else start + size)
            if step == 0 or (refresh is not None and step % refresh == 0):
                run = None
            logits_BLV, held = dense(model, tokens_BL, attend_BL, held, run)
            for row in range(B):
                slots = [s for s in range(start, start + size) if tokens_BL[row, s] == 8]
                without = logits_BLV[row].index_fill(-1, torch.tensor([8]), -torch.inf)
                best = {s: int(without[s].argmax()) for s in slots}
                sure = {s: logits_BLV[row, s].softmax(-1)[best[s]] for s in slots}
                for s in sorted(slots, key=lambda s: -sure[s])[:commits]:
                    tokens_BL[row, s] = best[s]
                    logprob_BL[row, s] = without[s].log_softmax(-1)[best[s]]
    return tokens_BL, logprob_BL


@pytest.mark.parametrize("kind", ["prefix", "dual"])
@pytest.mark.parametrize("refresh", [None, 2, 3])
def test_it_is_the_approximation_written_out(model, kind, refresh):
    batch = prompts(*BATCH)
    tokens_BL, logprob_BL = decoded(model, batch, kind, refresh, blocks=3, steps=4, commits=2)
    sampler = LowConfidence(
        answer_length=24, block_length=8, steps=12, temperature=0.0,
        cache=ApproximateCache(kind=kind, refresh=refresh),
    )  # fmt: skip
    rollout = sampler(model, batch, KEY)
    assert torch.equal(rollout.tokens_BL, tokens_BL)
    torch.testing.assert_close(rollout.logprob_BL, logprob_BL, atol=1e-5, rtol=0)
    exact = replace(sampler, cache=None)(model, batch, KEY)
    assert (exact.logprob_BL - rollout.logprob_BL).abs().max() > 1e-3
    assert sampler.approximate


@pytest.mark.parametrize("cache", [PREFIX, DUAL, replace(DUAL, refresh=2)], ids=str)
@pytest.mark.parametrize("settings", SETTINGS[1:], ids=str)
def test_neighbours_change_nothing(model, settings, cache):
    sampler = LowConfidence(answer_length=12, block_length=4, cache=cache, **settings)
    together = sampler(model, prompts(*BATCH, [1, 1], [5, 4, 3]), KEY)
    for i, row in enumerate((*BATCH, [1, 1], [5, 4, 3])):
        alone = sampler(model, prompts(row, samples=[i], width=4), KEY)
        for name in ("tokens_BL", "reveal_BL"):
            assert torch.equal(getattr(alone, name)[0], getattr(together, name)[i])
        torch.testing.assert_close(alone.logprob_BL[0], together.logprob_BL[i], atol=1e-5, rtol=0)


def test_what_runs_is_counted():
    # 3 + 8 columns; 2 blocks of 4 with steps that commit 2: whole, then from the block on
    sampler = LowConfidence(answer_length=8, block_length=4, steps=4, cache=PREFIX)
    rollout = sampler(tiny(), prompts([1, 2, 3], [4]), KEY)
    assert rollout.reads == ((2, 11, 11, 8), (2, 8, 11, 4), (2, 11, 11, 8), (2, 4, 11, 4))
    assert rollout.forwards == 8
    alone = sampler(tiny(), prompts([1, 2, 3]), KEY)
    assert alone.reads == sampler.planned_reads(3) == tuple(
        (1, queries, keys, slots // 2) for _, queries, keys, slots in rollout.reads
    )  # fmt: skip
    dual = replace(sampler, cache=DUAL, steps=8)(network("dream"), prompts([1, 2, 3]), KEY)
    assert [queries for _, queries, _, _ in dual.reads] == [11, 5, 5, 5, 11, 5, 5, 5]
    assert [slots for _, _, _, slots in dual.reads] == [4, 3, 2, 1] * 2


@pytest.mark.parametrize("refresh", [1, 2, 3, None])
@pytest.mark.parametrize("settings", [{"steps": 7}, {"steps": 12, "commits": "share_of_rest"}, {}])
def test_what_is_planned_is_what_one_sample_runs(settings, refresh):
    cache = ApproximateCache(kind="dual", refresh=refresh)
    sampler = LowConfidence(answer_length=10, block_length=4, cache=cache, **settings)
    rollout = sampler(tiny(), prompts([1, 2, 3]), KEY)
    assert rollout.reads == sampler.planned_reads(3)
    assert rollout.forwards == sampler.num_forwards == len(rollout.reads)


def test_where_samples_share_forwards_or_all_are_whole_none_are_planned():
    assert LowConfidence().planned_reads(3) == ()
    tree = SAMPLERS.get("tree")(answer_length=8, branch=(2, 2), cache=PREFIX)
    assert tree.planned_reads(3) == ()
    threshold = LowConfidence(answer_length=8, block_length=4, threshold=0.9, cache=PREFIX)
    assert len(threshold.planned_reads(3)) == 8


def test_a_threshold_takes_rows_of_unlike_blocks_apart():
    sampler = LowConfidence(answer_length=16, block_length=4, threshold=0.5, cache=DUAL)
    rollout = sampler(network("llada"), prompts(*BATCH, [1, 1]), KEY)
    steps = int(rollout.reveal_BL.max()) + 1
    assert len(rollout.reads) > steps  # more forwards than steps: some have rows of several kinds
    assert sum(rows for rows, *_ in rollout.reads) == rollout.forwards
    assert {queries for _, queries, _, _ in rollout.reads} == {4, 20}
    slots = sum(logits for *_, logits in rollout.reads)
    assert slots >= int((answer(rollout.reveal_BL, rollout) >= 0).sum())


def test_rows_that_have_stopped_leave_the_store():
    policy = network("llada")
    sampler = LowConfidence(
        answer_length=12, block_length=2, stop_at_end=True, end_rule="none", cache=DUAL
    )
    rollout = sampler(policy, prompts(*BATCH, [1, 1], [2], [2, 3]), KEY)
    rows = [rows for rows, *_ in rollout.reads]
    assert rows == sorted(rows, reverse=True) and rows[-1] < rows[0]
    assert sum(rows) == rollout.forwards


@pytest.mark.parametrize("family", [LLADA, DREAM], ids=["llada", "dream"])
def test_steps_with_a_cache_ask_the_device_for_no_number(family):
    walk(LowConfidence(answer_length=8, block_length=4, steps=4, cache=DUAL), *family)


def test_a_recipe_names_it_and_says_what_is_wrong():
    made = dllmzoo.build(
        "sampler", {"name": "low_confidence", "cache": {"kind": "dual", "refresh": 4}}
    )
    assert made.cache == ApproximateCache(kind="dual", refresh=4)
    assert dllmzoo.build("sampler", "low_confidence").cache is None
    for cache, message in (
        ({"kind": "suffix"}, "cache.kind"),
        ({"kind": "dual", "refresh": 0}, "cache.refresh: must be >= 1, got 0"),
        ({"refresh": 2}, "cache.kind: is missing"),
        ({"kind": "dual", "every": 2}, "cache.every"),
    ):
        with pytest.raises(RecipeError, match=message):
            dllmzoo.build("sampler", {"name": "low_confidence", "cache": cache})


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("low_confidence", {"cfg_scale": 1.5}, "cfg_scale 1.5 reads every row twice"),
        ("low_confidence", {"record_drafts": True}, "record_drafts wants a proposal"),
        ("running_confidence", {}, "masks slots of them again"),
    ],
)
def test_what_needs_more_of_a_forward_is_refused(name, settings, message):
    with pytest.raises(ValueError, match=message):
        SAMPLERS.get(name)(cache=PREFIX, **settings)


def test_a_network_without_such_a_cache_is_refused():
    sampler = LowConfidence(answer_length=4, cache=PREFIX)
    with pytest.raises(UsageError, match="SDARForCausalLM does not; the families dream, llada do"):
        sampler(tiny_sdar(), prompts([1, 2]), KEY)
