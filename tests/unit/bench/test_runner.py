"""Turns, workers that fail, and the record of a run."""

import json
import subprocess
import sys

import pytest

from dllmzoo.bench import runner
from dllmzoo.bench.cases import CASES, Case, chosen
from dllmzoo.bench.machine import idle_warning, machine
from dllmzoo.bench.results import exponent, summary
from dllmzoo.bench.sizes import SIZES, evenly, size_of
from dllmzoo.errors import RunError, UsageError

CASE = Case("rollout", "a rollout", "rollouts", scaled="eight steps")
SETTINGS = runner.Settings("tiny", "cpu", "float32", repeats=2, threads=1)


def arm(seconds, peak=100, way="ours", **facts):
    return {
        "case": "rollout", "way": way, "dtype": "float32", "seconds": seconds,
        "parts": {"rollout": seconds}, "flops": 60, "tokens": 30, "peak_bytes": peak,
        "matmul_peak": 40.0, "facts": facts, "threads": 1, "torch": "2", "gpu": None,
    }  # fmt: skip


def test_ways_take_turns():
    assert list(runner.turns(CASE, 3)) == ["ours", "plain"] * 3


def test_ratios_are_of_medians_and_their_spread_of_neighbours():
    found = summary(
        CASE,
        {
            "ours": [arm(1.0), arm(2.0), arm(4.0)],
            "plain": [arm(8.0, 400), arm(10, 300), arm(8, 500)],
        },
    )
    ours = found["ways"]["ours"]
    assert ours["faster"] == {"median": 4.0, "low": 2.0, "high": 8.0}  # 8 / 2; 8/1, 10/2, 8/4
    assert ours["smaller"] == {"median": 4.0, "low": 3.0, "high": 5.0}  # 400 / 100
    assert ours["flops_per_second"] == 30.0 and ours["share_of_peak"] == 0.75  # 60 / 2 / 40
    assert ours["tokens_per_second"] == 15.0 and ours["all_seconds"] == [1.0, 2.0, 4.0]
    assert "faster" not in found["ways"]["plain"] and "same_tokens" not in found


@pytest.mark.parametrize(("other", "same"), [(["a", "b"], True), (["a", "c"], False)])
def test_digests_say_whether_the_tokens_are_the_same(other, same):
    arms = {"ours": [arm(1, digests=["a", "b"])], "plain": [arm(2, digests=other)]}
    found = summary(CASE, arms)
    assert found["same_tokens"] is same and found["ways"]["ours"]["facts"] == {}


def test_overhead_is_a_share_of_the_whole_round():
    found = summary(CASE, {"ours": [arm(4.0, overhead=0.1)], "plain": [arm(8.0)]})
    assert found["ways"]["ours"]["facts"]["overhead_share"] == pytest.approx(0.025)


def test_memory_that_nobody_tells_has_no_ratio():
    found = summary(CASE, {"ours": [arm(1, None)], "plain": [arm(2, None)]})
    assert found["ways"]["ours"]["smaller"] is None


def test_a_power_law_is_fitted():
    assert exponent([(1, 3.0), (2, 12.0), (4, 48.0)]) == pytest.approx(2)
    case = Case("growth_states", "", "growth", ways=("K=1", "K=4"), baseline="K=1", growth=True)
    found = summary(case, {"K=1": [arm(1.0, 100)], "K=4": [arm(4.0, 105)]})
    assert found["growth"] == {"exponent": pytest.approx(1), "memory": 1.05}


def test_arms_run_in_turns_and_the_record_is_told_after_each_case(monkeypatch):
    order, told = [], []
    monkeypatch.setattr(
        runner, "run_arm", lambda case, way, _: order.append((case.name, way)) or arm(1.0, way=way)
    )
    cases = chosen(["rollout", "score"])
    record = runner.measure(cases, SETTINGS, each=lambda r: told.append(len(r["cases"])))
    assert order == [
        (name, way) for name in ("rollout", "score") for _ in range(2) for way in ("ours", "plain")
    ]
    assert told == [1, 2]
    assert set(record) == {"format", "settings", "machine", "load_at_start", "cases"}
    assert record["machine"]["threads"] == 1 and record["settings"]["size"] == "tiny"
    assert json.loads(json.dumps(record)) == record


def test_a_failed_worker_is_shown_with_its_own_words(monkeypatch):
    def fail(command, **_):
        assert command[:3] == [sys.executable, "-m", "dllmzoo.bench.worker"]
        assert command[-2:] == ["--threads", "1"]
        return subprocess.CompletedProcess(command, 1, "", "line\nMemoryError: no room\n")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(RunError, match=r"(?s)rollout, plain.*code 1.*MemoryError: no room"):
        runner.run_arm(CASE, "plain", SETTINGS)


@pytest.mark.parametrize("said", ["", "usage: worker\n"])
def test_a_worker_that_prints_no_json_is_an_error(monkeypatch, said):
    done = subprocess.CompletedProcess([], 0, said, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(RunError, match="the last line of the worker is no JSON"):
        runner.run_arm(CASE, "plain", SETTINGS)


def test_a_real_worker_refuses_an_unknown_way():
    with pytest.raises(RunError, match="rollout is done ours or plain, not 'sideways'"):
        runner.run_arm(CASE, "sideways", SETTINGS)


def test_names_choose_cases_in_the_order_of_the_catalogue():
    assert [case.name for case in chosen(["score", "rollout"])] == ["rollout", "score"]
    assert [case.name for case in chosen(["growth"])][-1] == "startup"
    assert {case.name for case in CASES} - {case.name for case in chosen([])} == {"rollout_stored"}
    with pytest.raises(UsageError, match="there is no benchmark 'rolout'"):
        chosen(["rolout"])


def test_a_size_for_gpus_is_refused_on_a_cpu():
    with pytest.raises(UsageError, match="8 billion parameters, which run on a GPU only"):
        size_of("8b", "cpu")
    assert size_of("8b", "cuda").dtype == "bfloat16"
    with pytest.raises(UsageError, match="--size 7b: there are tiny, 60m, 8b"):
        size_of("7b", "cuda")
    with pytest.raises(UsageError, match="--device tpu: there are cpu, cuda"):
        size_of("tiny", "tpu")


def test_measured_steps_are_spread_evenly_and_see_the_mean_number_of_masks():
    size = SIZES["60m"]
    steps = size.measured(size.steps)
    assert steps == [0, 18, 36, 54, 73, 91, 109, 127]
    assert [size.state(step)[1] for step in steps] == [32, 28, 24, 20, 14, 10, 6, 2]
    every = [size.state(step)[1] for step in range(size.steps)]
    assert sum(every) / 128 == 17.0 and sum(size.state(step)[1] for step in steps) / 8 == 17.0
    assert size.state(127) == (254, 2) and evenly(3, 8) == [0, 1, 2]


def test_the_60m_network_has_60_million_parameters():
    shape = SIZES["60m"].llada
    width, inner, words = shape["d_model"], shape["mlp_hidden_size"], shape["vocab_size"]
    layer = 4 * width**2 + 3 * width * inner + 2 * width
    assert shape["n_layers"] * layer + 2 * words * width + width == 60_039_680


def test_a_busy_machine_is_warned_of():
    assert idle_warning(0.3, 2) is None and idle_warning(None, 2) is None
    assert "load of this machine is 3.0 on 2 cores" in idle_warning(3.0, 2)


def test_the_machine_is_named_by_the_system():
    found = machine()
    assert found["cores"] >= 1 and found["cpu"] and found["torch"]


def test_the_command_line_side_imports_no_torch():
    code = (
        "import sys, dllmzoo.bench.runner, dllmzoo.bench.table, dllmzoo.cli.bench; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
