"""`dllmzoo show run`: where a run stands, in the terminal and as JSON."""

import json
import os
import subprocess
import sys

import pytest

from dllmzoo.errors import HealthError
from dllmzoo.training import loop
from tests.unit.report import made

KEYS = ["reward", "rollout/solved_rate", "kl", "grad_norm", "eval/solved_rate", "time/update"]


def lines(text):
    """Label -> what stands behind it; lines without a label belong to the one before."""
    found, label = {}, ""
    for line in text.splitlines():
        head, _, rest = line.partition("  ")
        label = head or label
        found.setdefault(label, []).append(rest.strip())
    return found


def test_a_run_is_shown_by_its_metrics(cli, tmp_path):
    run = made.run(tmp_path / "run", 4, keys=KEYS, rollouts={})
    done = cli("show", "run", run)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "run made by hand"
    said = lines(done.out)
    assert said["folder"] == [str(run)] and said["state"] == ["finished: round 4 of 4"]
    # the made reward is 0.5 + 0.4 sin(round / 5), and sin x / sin 0.8 = 0, 0.28, 0.54, 0.79, 1
    assert said["reward"] == ["▁▃▅▇█  0.500 to 0.787  (lowest 0.500, highest 0.787)"]
    assert said["eval solved"][0].endswith(" (0.100 to 0.900) in round 4")
    assert said["eval solved"][2].endswith("in round 0, the first")
    assert "KL" in said and "grad norm" in said and "clipped" not in said
    assert "update" in said["a round"][0]


def test_a_folder_alone_is_enough(cli, tmp_path):
    run = made.run(tmp_path / "run", 4, keys=KEYS, rollouts={})
    assert cli("show", run).out == cli("show", "run", run).out


def test_json_has_every_part(cli, tmp_path):
    run = made.run(tmp_path / "run", 4, keys=KEYS, rollouts={})
    seen = json.loads(cli("show", "run", run, "--json").out)
    assert set(seen) == {
        "folder", "title", "method", "stage", "seed", "state", "why", "silent", "rounds",
        "planned", "seconds", "evaluation", "curves", "times", "warnings",
    }  # fmt: skip
    curve = next(each for each in seen["curves"] if each["key"] == "kl")
    assert curve["rounds"] == [0, 1, 2, 3, 4] and len(curve["values"]) == 5


def test_what_a_real_run_writes_can_be_shown(cli, tiny_run):
    said = lines(cli("show", "run", tiny_run).out)
    assert said["state"][0].startswith("finished: round 2 of 2, 0:0")
    assert said["method"] == ["no method named, rl, seed 0"]
    assert said["reward"] and said["a round"]


def test_a_run_that_a_health_check_stopped_says_why(cli, recipe, monkeypatch):
    def stop(*args, **options):
        raise HealthError("the loss is not finite")
        yield

    with monkeypatch.context() as patched:
        patched.setattr(loop, "train", stop)
        assert cli("train", recipe, "-q").code == 3
    (state,) = lines(cli("show", "run", "runs/tiny").out)["state"]
    assert state.startswith("stopped in round 0 of 2, by a health check: the loss is not finite;")
    assert cli("train", recipe, "-q", "--resume", "auto").code == 0
    (state,) = lines(cli("show", "run", "runs/tiny").out)["state"]
    assert state.startswith("finished: round 2 of 2")


def test_a_run_without_a_round_says_so(cli, tmp_path):
    run = made.run(tmp_path / "run", 4, keys=[], rollouts={}, finished=False)
    (run / "metrics.jsonl").unlink()
    said = lines(cli("show", "run", run).out)
    assert said["state"][0].startswith("running: round 0 of 4; last sign of life 0:0")


def test_a_value_that_is_the_same_in_every_round_is_no_curve(cli, tmp_path):
    run = made.run(tmp_path / "run", 2, keys=[], rollouts={})
    rows = [{"round": n, "reward": 0.25} for n in range(3)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert lines(cli("show", "run", run).out)["reward"] == ["0.250 in every round"]


@pytest.mark.parametrize("words", [("run", "nowhere"), ("run", ".")])
def test_what_holds_no_run_is_refused(cli, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    done = cli("show", *words)
    assert done.code == 2 and f"{words[1]} holds no run" in done.err


def test_a_run_needs_its_folder(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("show", "run")
    assert done.code == 2 and "which run? Give its folder: dllmzoo show run DIR" in done.err


def test_it_needs_no_torch(tmp_path):
    run = made.run(tmp_path / "run", 4, keys=KEYS, rollouts={})
    program = (
        "import sys; from dllmzoo.cli._app import run; code = run(sys.argv[1:]); "
        "sys.exit(code or 'torch' in sys.modules)"
    )
    words = [sys.executable, "-c", program, "show", "run", str(run)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
