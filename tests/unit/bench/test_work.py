"""Arms in this process: their parts, their clocks, what a stopped sampler shows."""

import json

import pytest
import torch

from dllmzoo.bench import blocks, rollouts, rounds, scores, worker
from dllmzoo.bench.memory import Peak, matmul_peak
from dllmzoo.bench.place import Place
from dllmzoo.bench.sizes import SIZES
from dllmzoo.bench.stopping import between_forwards
from dllmzoo.bench.stopwatch import Stopwatch
from dllmzoo.bench.work import Unit, Work
from dllmzoo.errors import RunError, UsageError

TINY = Place(SIZES["tiny"])


class Clock:
    """A place whose time goes on by one with every look."""

    on_gpu = False

    def __init__(self):
        self.time = 0.0

    def now(self):
        self.time += 1
        return self.time


def test_parts_are_scaled_by_what_they_stand_for():
    work = Work([Unit(lambda: {"a": 1.0}, 16.0), Unit(lambda: {"a": 2.0, "b": 3.0}, 0.5)])
    assert work.measure() == {"a": 17.0, "b": 1.5}


def test_each_kind_is_warmed_up_once():
    calls = []

    def unit(name, **settings):
        return Unit(lambda: calls.append(name) or {}, **settings)

    units = [unit("a", kind="x"), unit("b", kind="x"), unit("c", kind="y")]
    warm = unit("d", kind="z", warm=lambda: calls.append("warm"))
    Work([*units, warm]).warm_up()
    assert calls == ["a", "c", "warm"]


def test_only_the_outermost_of_nested_calls_is_timed():
    watch = Stopwatch(Clock())
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with watch.watching():
        layer(torch.zeros(1, 2)).sum().backward()
        optimizer.step()
    assert watch.seconds == {"policy": 1.0, "optimiser": 1.0}
    layer(torch.zeros(1, 2))
    assert watch.seconds["policy"] == 1.0  # no hook is left behind


def test_a_sampler_that_runs_too_few_forwards_is_an_error():
    network = TINY.network("llada")
    with pytest.raises(RunError, match="ran 0 forwards and 1 were to be timed"):
        between_forwards(TINY, network, 0, 1, lambda: states_of(network))


def states_of(network):
    from dllmzoo.bench import states

    return states.rollout(TINY, network, 1)


@pytest.mark.parametrize("cache", [True, False], ids=["cached", "whole rows"])
def test_a_block_in_the_middle_and_the_last_one_are_timed(cache):
    network = TINY.network("sdar")
    number = TINY.size.sdar_answer // TINY.size.sdar_block
    for block in (0, 3, number - 1):
        assert blocks.one_block(TINY, network, TINY.size.sdar_answer, block, cache=cache) > 0


def test_the_cache_saves_operations():
    network = TINY.network("sdar")
    work = {c: blocks.rollout(TINY, network, TINY.size.sdar_answer, cache=c) for c in (True, False)}
    # 4 steps and a store of 4 columns for 4 steps of 64: attention aside, 12.8 times less
    assert 8 < work[False].flops / work[True].flops < 16


@pytest.mark.parametrize("way", ["ours", "plain"])
def test_a_round_names_its_parts(way):
    work = rounds.make("round", way, TINY)
    rest = [unit for unit in work.units if unit.kind != "rollout"]
    parts = Work(rest).measure()
    if way == "ours":
        assert set(parts) == {"guess and old", "reference", "update", "other"}
        assert work.facts["overhead"] < sum(parts.values())
    else:
        assert set(parts) == {"guess", "old", "reference", "update"}
        assert work.facts["measured states"] == "2 of 4"
    assert all(seconds > 0 for seconds in parts.values())


def test_ours_needs_fewer_operations_than_plain():
    work = {way: rounds.make("round", way, TINY).flops for way in ("ours", "plain")}
    assert 0 < work["ours"] < work["plain"]


@pytest.mark.parametrize(
    ("case", "way", "parts"),
    [
        ("score", "ours", ["old or leaf", "gradient"]),
        ("score", "plain", ["old or leaf", "gradient"]),
        ("score_again", "ours", ["old or leaf", "gradient"]),
        ("score_again", "plain", ["gradient"]),
        ("score_elbo", "ours", ["gradient"]),
        ("score_elbo", "plain", ["gradient"]),
    ],
)
def test_updates_name_what_they_do(case, way, parts):
    assert list(scores.make(case, way, TINY).measure()) == parts


def test_a_network_is_the_same_at_every_call_and_the_global_generator_rests():
    before = torch.random.get_rng_state()
    first, second = (TINY.network("llada").state_dict() for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_a_half_precision_copy_samples_and_the_policy_is_scored_in_full(monkeypatch):
    seen = []
    step = rollouts.our_step

    def watched(place, body, *given):
        seen.append(body)
        return step(place, body, *given)

    monkeypatch.setattr(rollouts, "our_step", watched)
    work = rounds.make("round_bf16", "ours", TINY)
    work.units[0].run()
    assert {p.dtype for body in seen for p in body.parameters()} == {torch.bfloat16}
    assert work.units[-1].run()["update"] > 0  # in float32, with the copy brought up to date
    assert torch.get_default_dtype() == torch.float32


def test_the_peak_is_what_the_work_held_on_top():
    kept = torch.zeros(2**22)  # 16 MiB that were there before
    peak = Peak(TINY)
    torch.zeros(2**24).add_(1)  # 64 MiB that are gone
    found = peak.bytes()
    if found is None:
        pytest.skip("this system does not let a process set its peak of memory back")
    assert 0.9 * 2**26 < found < 1.5 * 2**26 and len(kept)


def test_matrix_products_have_a_peak():
    assert matmul_peak(TINY, repeats=1) > 1e7


def test_the_worker_prints_one_line_of_json(capsys):
    threads = torch.get_num_threads()
    assert worker.main(["rollout_greedy", "ours", "--threads", str(threads)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert set(found) == {
        "case", "way", "dtype", "seconds", "parts", "flops", "tokens", "peak_bytes",
        "matmul_peak", "facts", "threads", "torch", "gpu",
    }  # fmt: skip
    assert found["seconds"] == pytest.approx(sum(found["parts"].values())) and found["flops"] > 0
    assert found["tokens"] == 8 * 64 and len(found["facts"]["digests"]) == 8


@pytest.mark.parametrize("way", ["help", "list"])
def test_the_start_of_the_command_line_has_seconds_and_nothing_else(capsys, way):
    assert worker.main(["startup", way]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seconds"] > 0.02 and list(found["parts"]) == ["start"]
    assert found["peak_bytes"] is found["matmul_peak"] is None and found["tokens"] == 0


def test_the_worker_refuses_in_words(capsys):
    assert worker.main(["rollout", "sideways"]) == 2
    assert "rollout is done ours or plain, not 'sideways'" in capsys.readouterr().err
    with pytest.raises(UsageError, match="run on a GPU only; add --device cuda"):
        worker.measure("rollout", "ours", "8b", "cpu", "bfloat16", None)
