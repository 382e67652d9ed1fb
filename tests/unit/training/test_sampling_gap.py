"""How far the recorded log-probs are from those of the policy in the same states."""

import json
from dataclasses import dataclass, replace

import pytest
import torch

import dllmzoo
from dllmzoo.checks import load_checked
from dllmzoo.recipe import load
from dllmzoo.records import Key
from dllmzoo.training.loop import collect
from dllmzoo.training.meter import Meter
from dllmzoo.training.plan import work_of
from dllmzoo.training.rollout_copy import RolloutCopy
from dllmzoo.training.sampling_gap import ROWS, sampling_gap
from dllmzoo.zoo import SAMPLERS
from tests.docs.metrics_table import undocumented
from tests.runs import recipe
from tests.unit.models.dense import network
from tests.unit.models.tiny import tiny_sdar
from tests.unit.samplers.toy import KEY, prompts
from tests.unit.training.small import budget, learner, method

GAP = Key(1, 2, "gap")
BATCH = prompts([1, 2, 3], [4], [0, 0], [3, 3, 3])
CACHE = {"kind": "dual"}


def gap(policy, sampler, batch=BATCH, key=GAP, micro_batch=3):
    return sampling_gap(policy, sampler(policy, batch, KEY), key, micro_batch)


EXACT = [
    ("low_confidence", {"temperature": 0.0}),
    ("low_confidence", {"temperature": 0.7, "cfg_scale": 1.5}),
    ("low_confidence", {"end_rule": "logits_inf", "steps": 4}),
    ("low_confidence", {"cache": CACHE | {"refresh": 1}}),
    ("entropy", {"top_k": 3, "top_p": 0.8, "temperature": 1.3}),
    ("margin", {"threshold": 0.4, "stop_at_end": True}),
    ("running_confidence", {"steps": 4}),
    ("random_order", {"record_drafts": True}),
]


@pytest.mark.parametrize(("name", "settings"), EXACT, ids=str)
def test_exact_sampling_has_none(name, settings):
    sampler = SAMPLERS.get(name)(answer_length=12, block_length=6, **settings)
    found = gap(network("llada"), sampler).nats_S
    assert len(found) >= 4 and found.max() < 1e-5


def test_filled_blanks_and_blocks_have_none():
    blanks = torch.full((4, 5), 8).masked_fill(torch.arange(5) == 2, 1)
    found = gap(network("llada"), SAMPLERS.get("infill")(answer_length=5),
                replace(BATCH, answer_BN=blanks))  # fmt: skip
    assert len(found.nats_S) == 4 and found.nats_S.max() < 1e-5
    blocks = SAMPLERS.get("block_diffusion")(answer_length=7, top_k=4, temperature=0.8)
    found = gap(tiny_sdar().eval(), blocks)
    assert len(found.nats_S) == 4 and found.nats_S.max() < 1e-5


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_an_approximate_cache_has_one(family, temperature):
    sampler = SAMPLERS.get("low_confidence")(
        answer_length=12, block_length=6, temperature=temperature, cache=CACHE
    )
    policy = network(family)
    rollout = sampler(policy, BATCH, KEY)
    found = torch.cat([sampling_gap(policy, rollout, Key(s, 0, "gap"), 4).nats_S for s in range(9)])
    assert found.mean() > 1e-2
    assert (found < 1e-5).any()  # the first step of a block is exact


def test_the_difference_is_that_of_the_logits_at_the_law_of_the_draw():
    # the sampled network speaks twice as loud: logits 2x instead of x at temperature 2
    policy, loud = network("llada"), network("llada")
    with torch.no_grad():
        loud.get_output_embeddings().weight.mul_(2)
    sampler = SAMPLERS.get("low_confidence")(answer_length=1, temperature=2.0)
    rollout = sampler(loud, BATCH, KEY)
    found = sampling_gap(policy, rollout, GAP, 4).nats_S
    tokens_BL = rollout.tokens_BL.masked_fill(rollout.answer_BL, 8)
    with torch.no_grad():
        logits_BV = policy(tokens_BL, rollout.attend_BL, logits_at=rollout.answer_BL).logits
    logits_BV[:, 8] = -torch.inf
    token_B1 = rollout.tokens_BL[:, -1:]
    expected = [scale * logits_BV for scale in (0.5, 1.0)]
    expected = [each.log_softmax(-1).gather(1, token_B1)[:, 0] for each in expected]
    torch.testing.assert_close(found.double(), (expected[0] - expected[1]).abs(), atol=1e-5, rtol=0)
    assert found.min() > 1e-3


def test_a_token_that_a_filter_would_leave_out_now_is_finite():
    policy, other = network("llada", 0), network("llada", 5)
    sampler = SAMPLERS.get("entropy")(answer_length=6, top_k=1)
    rollout = sampler(other, BATCH, KEY)
    found = sampling_gap(policy, rollout, GAP, 4).nats_S
    assert found.isfinite().all() and found.max() > 1e-3


def test_one_step_of_at_most_sixteen_rows_is_scored_whatever_the_micro_batch():
    policy = network("llada")
    sampler = SAMPLERS.get("low_confidence")(answer_length=8, steps=4, cache=CACHE)
    rollout = sampler(policy, prompts(*[[1, i % 5] for i in range(20)]), KEY)
    found = sampling_gap(policy, rollout, GAP, 5)
    assert len(found.nats_S) == 2 * ROWS  # each step commits two tokens
    assert [(read.rows, read.length, read.logits) for read in found.reads] == [
        (5, 10, 10), (5, 10, 10), (5, 10, 10), (1, 10, 2)
    ]  # fmt: skip
    again = sampling_gap(policy, rollout, GAP, 16).nats_S
    torch.testing.assert_close(found.nats_S, again, atol=1e-6, rtol=0)
    other = sampling_gap(policy, rollout, Key(1, 3, "gap"), 16).nats_S
    assert not torch.allclose(found.nats_S, other, atol=1e-4)


def test_answers_that_no_sampler_made_have_nothing_to_compare():
    batch = replace(BATCH, answer_BN=torch.ones(4, 3, dtype=torch.int64))
    found = gap(network("llada"), SAMPLERS.get("stored")(answer_length=3), batch)
    assert len(found.nats_S) == 0 and found.reads == ()


@dataclass(frozen=True)
class Foreign:
    """Somebody else's sampler, which says its temperature only."""

    inner: object
    temperature: float = 1.0
    answer_length: int = 6

    def __call__(self, policy, batch, key):
        return replace(self.inner(policy, batch, key), sampler=self)


def test_a_sampler_of_ones_own_is_judged_by_its_temperature():
    sampler = Foreign(SAMPLERS.get("low_confidence")(answer_length=6))
    assert gap(network("llada"), sampler).nats_S.max() < 1e-5


def measured(sampler, rollouts=None):
    """The row of a round, and the forwards that it counted."""
    mine = learner()
    if rollouts is not None:
        mine = replace(mine, rollouts=RolloutCopy(mine.policy, rollouts))
    parts = method()
    parts = replace(parts, sampler=replace(parts.sampler, **sampler))
    meter = Meter(mine.accelerator)
    collect(parts, budget(), mine, meter, 3, 1)
    return meter.row(), meter.forwards


def test_a_round_reports_it_where_sampling_is_not_exact_and_only_there():
    exact, reads = measured({})
    assert "sampling_gap" not in exact
    assert "sampling_gap" not in measured({"cache": CACHE | {"refresh": 1}})[0]
    cached, fewer = measured({"cache": CACHE})
    assert cached["sampling_gap"] > 1e-6
    (short,) = (read for read in fewer if read.keys is not None)
    assert short.length < short.keys == reads[0].length
    assert sum(r.rows for r in fewer) == sum(r.rows for r in reads) + 16  # the rows looked at
    assert measured({}, torch.bfloat16)[0]["sampling_gap"] > 1e-6
    assert measured({}, torch.float32)[0]["sampling_gap"] < 1e-4


def test_a_run_says_in_its_manifest_and_its_metrics_that_answers_are_approximate(tmp_path):
    made = recipe(tmp_path / "run", train={"rounds": 1, "prompts": 2, "group_size": 2})
    made["sampler"] |= {"cache": CACHE}
    rows = list(dllmzoo.train(made))
    assert rows[1]["sampling_gap"] > 1e-6
    assert not undocumented(rows[1])
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    (notice,) = manifest["notices"]
    assert notice.startswith("sampler.cache (dual) is an approximation")
    assert load(tmp_path / "run" / "recipe.resolved.yaml").sampler.cache.kind == "dual"


def test_a_forecast_counts_the_columns_that_run(tmp_path):
    made = recipe(tmp_path)
    made["sampler"] |= {"block_length": 8, "cache": CACHE}
    work = work_of(load_checked(made))
    P = work.prompt
    shapes = [(read.rows, read.length, read.keys, read.logits) for read in work.rollout]
    assert shapes == [(16, P + 16, None, 128), (16, 8, P + 16, 64)] * 2
    made["sampler"] |= {"cache": None}
    (whole,) = work_of(load_checked(made)).rollout
    assert whole.rows == work.rollout_rows == 64
