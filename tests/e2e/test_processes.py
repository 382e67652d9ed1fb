"""Runs as separate processes: killed, interrupted, and two at once."""

import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.runs import metrics, recipe, weights

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(file, *words):
    """`dllmzoo train FILE WORDS` as a process of its own."""
    command = [sys.executable, "-m", "dllmzoo", "train", str(file), *words]
    with said(file).open("w") as output:
        return subprocess.Popen(command, env=ENVIRONMENT, stdout=output, stderr=output)


def said(file):
    """Where the process of a recipe file prints."""
    return file.with_suffix(".log")


def written(tmp_path, name, **changes):
    """A recipe file for a run in `tmp_path / name`."""
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(recipe(tmp_path / name, **changes)))
    return file


def wait_for_rounds(folder, rounds, process, seconds=120):
    """Until metrics.jsonl has that many lines."""
    until = time.monotonic() + seconds
    file = folder / "metrics.jsonl"
    while time.monotonic() < until and process.poll() is None:
        if file.exists() and file.read_bytes().count(b"\n") >= rounds:
            return
        time.sleep(0.02)
    raise AssertionError(f"no {rounds} rounds: {said(folder.with_suffix('.yaml')).read_text()}")


TRAIN = {
    "rounds": 40, "prompts": 4, "group_size": 4, "micro_batch": 8, "rollout_batch": 8,
    "save_every": 3,
}  # fmt: skip


@pytest.mark.slow  # three processes, each imports torch and transformers
def test_kill_9_and_resume_give_the_bits_of_an_uninterrupted_run(tmp_path):
    whole = start(written(tmp_path, "whole", train=TRAIN))
    assert whole.wait(timeout=300) == 0, said(tmp_path / "whole.yaml").read_text()
    killed = start(written(tmp_path, "cut", train=TRAIN))
    wait_for_rounds(tmp_path / "cut", 9, killed)
    killed.kill()
    killed.wait()
    again = start(tmp_path / "cut.yaml", "--resume", "auto")
    assert again.wait(timeout=300) == 0, said(tmp_path / "cut.yaml").read_text()
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


@pytest.mark.slow  # a process that imports torch and transformers
def test_ctrl_c_finishes_the_round_saves_and_exits_130(tmp_path):
    process = start(written(tmp_path, "run", train=TRAIN | {"rounds": 100000}))
    wait_for_rounds(tmp_path / "run", 3, process)
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=60)
    output = said(tmp_path / "run.yaml").read_text()
    assert code == 130, output
    assert "Traceback" not in output and "--resume auto" in output
    last = metrics(tmp_path / "run")[-1]["round"]
    assert (tmp_path / "run" / "checkpoints" / f"round-{last:06d}").is_dir()
