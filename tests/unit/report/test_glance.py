"""A run in a few numbers: whether it goes on, what stopped it, its evaluations and its signs."""

import json
import os

import pytest

from dllmzoo.report.collect import collect
from dllmzoo.report.glance import glance
from dllmzoo.report.signs import warnings
from tests.unit.report import made

KEY = "eval/solved_rate"


def written(folder, rows, *, manifest=None, age=0.0):
    """A run of these rows whose last line is so many seconds old; and the time now."""
    made.run(folder, 100, keys=[], rollouts={}, finished=False)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest))
    for file in folder.iterdir():
        os.utime(file, (1000.0, 1000.0))
    return glance(folder, now=1000.0 + age)


def elapsed(*seconds):
    return [{"round": n, "time/elapsed": each} for n, each in enumerate(seconds)]


@pytest.mark.parametrize(
    ("rows", "age", "state"),
    [(elapsed(10, 20, 30), 59, "running"), (elapsed(10, 20, 30), 61, "silent"),
     # the longest round took 100 s, and three of them may pass
     (elapsed(10, 110, 130), 299, "running"), (elapsed(10, 110, 130), 301, "silent"),
     # weights may load for ten minutes
     ([], 599, "running"), ([], 601, "silent")],
)  # fmt: skip
def test_a_run_is_alive_while_its_silence_is_no_longer_than_its_rounds(tmp_path, rows, age, state):
    seen = written(tmp_path / "run", rows, age=age)
    assert (seen["state"], seen["silent"]) == (state, age)


def test_a_finished_run_is_never_silent(tmp_path):
    seen = written(tmp_path / "run", elapsed(1, 2), manifest={"finished": {"round": 1}}, age=1e6)
    assert (seen["state"], seen["silent"], seen["seconds"]) == ("finished", None, 2)


def test_what_stopped_a_run_is_told(tmp_path):
    stopped = {"by": "a health check", "why": "the policy collapsed"}
    seen = written(tmp_path / "run", elapsed(1, 2), manifest={"stopped": stopped})
    assert (seen["state"], seen["why"]) == ("stopped", "a health check: the policy collapsed")
    (run,) = collect([tmp_path / "run"])["runs"]
    assert run["state"] == "stopped by a health check: the policy collapsed"


def test_a_run_that_was_resumed_is_not_stopped_any_more(tmp_path):
    seen = written(tmp_path / "run", elapsed(1, 2), manifest={"stopped": None, "finished": None})
    assert seen["state"] == "running"


def test_evaluations_are_first_last_and_best(tmp_path):
    rows = [{"round": n, KEY: v, f"{KEY}_low": v - 0.125, f"{KEY}_high": v + 0.125}
            for n, v in ((0, 0.25), (5, 0.75), (10, 0.5))]  # fmt: skip
    found = written(tmp_path / "run", rows)["evaluation"]
    assert found["metric"] == "solved_rate"
    assert found["first"] == {"round": 0, "value": 0.25, "low": 0.125, "high": 0.375}
    assert (found["best"]["round"], found["last"]["round"]) == (5, 10)


def test_times_are_means_over_the_rounds_that_have_the_part(tmp_path):
    rows = [{"round": 0, "time/evaluate": 9.0},
            {"round": 1, "time/update": 1.0, "time/evaluate": 4.0, "time/elapsed": 5.0},
            {"round": 2, "time/update": 3.0, "time/elapsed": 8.0}]  # fmt: skip
    assert written(tmp_path / "run", rows)["times"] == {"update": 2.0, "evaluate": 4.0}


def test_a_torn_line_and_values_that_are_no_numbers_are_no_obstacle(tmp_path):
    run = made.run(tmp_path / "run", 2, keys=[], rollouts={})
    text = '{"round": 1, "reward": 0.5}\n{"round": 2, "reward": NaN}\n{"round": 3, "rew'
    (run / "metrics.jsonl").write_text(text)
    seen = glance(run)
    assert seen["rounds"] == 2 and seen["curves"][0]["values"] == [0.5, None]
    assert seen["warnings"] == ["reward was not finite in 1 round, first in round 2"]


def rounds(number=20, **values):
    """Rows of a run that goes well but for these values."""
    well = {"reward_zero_std_share": 0.1, "ess_share": 0.9, "clip_fraction": 0.1, "entropy": 0.5,
            "grad_norm_max": 1.0}  # fmt: skip
    return [{"round": n + 1, **well, **values} for n in range(number)]


def test_a_run_that_goes_well_has_no_sign_of_trouble():
    assert warnings(rounds(), None) == [] and warnings([], None) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [({"reward_zero_std_share": 0.5}, "dead groups: in 50 % of the groups"),
     ({"ess_share": 0.09}, "effective sample size 0.090"),
     ({"clip_fraction": 0.51}, "clip fraction 0.51"),
     ({"kl": float("inf")}, "kl was not finite in 20 rounds, first in round 1")],
)  # fmt: skip
def test_each_sign_is_one_sentence(values, said):
    (sentence,) = warnings(rounds(**values), None)
    assert sentence.startswith(said)


def test_lately_means_the_last_ten_rounds():
    rows = rounds(10, reward_zero_std_share=1.0) + rounds(10)
    assert warnings(rows, None) == []


def test_an_entropy_that_is_gone_and_a_gradient_that_jumped_are_told():
    rows = rounds()
    for row in rows[10:]:
        row["entropy"] = 0.02
    rows[4]["grad_norm_max"] = 101.0
    gone, jumped = warnings(rows, None)
    assert gone == "entropy of the answers fell from 0.5 to 0.02 nats: all are alike"
    assert jumped == "gradient norm 101 in round 5, 101 times the median"


def test_an_evaluation_counts_as_fallen_when_the_intervals_part():
    start = {"round": 0, KEY: 0.5, f"{KEY}_low": 0.4, f"{KEY}_high": 0.6}
    near = {"round": 9, KEY: 0.3, f"{KEY}_low": 0.2, f"{KEY}_high": 0.41}
    far = {"round": 9, KEY: 0.2, f"{KEY}_low": 0.1, f"{KEY}_high": 0.39}
    assert warnings([start, near], KEY) == []
    (sentence,) = warnings([start, far], KEY)
    assert sentence.startswith(f"{KEY} fell below its start: 0.500 in round 0, 0.200 in round 9")
