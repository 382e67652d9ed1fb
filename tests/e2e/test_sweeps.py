"""A sweep that is killed or interrupted goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dllmzoo.lab.runs import Arm, run_arms
from tests.runs import metrics, weights
from tests.unit.lab.small import write_recipe

pytestmark = pytest.mark.slow  # programs of their own, which import torch


ROUNDS = 30


def sweep(folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "dllmzoo", "sweep", str(folder / "tiny.yaml"), "--jobs", "2",
        "loss.clip_low=0.1,0.2", f"train.rounds={ROUNDS}", "train.save_every=3", "-o", "sweep",
    ]  # fmt: skip


def start(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        sweep(folder), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def rounds(folder: Path) -> int:
    """Rounds that all runs have written together."""
    files = folder.glob("sweep/runs/*/metrics.jsonl")
    return sum(len(file.read_text().splitlines()) - 1 for file in files)


def wait_for_more(folder: Path, before: int, process: subprocess.Popen) -> None:
    """Until the runs have gone on by some rounds."""
    until = time.monotonic() + 200
    while rounds(folder) < before + 4:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)


def test_a_sweep_goes_on_after_a_kill_and_a_ctrl_c_to_the_same_bits(tmp_path):
    recipe = write_recipe(tmp_path / "tiny.yaml")
    before = 0
    for number, whole_group in ((signal.SIGKILL, False), (signal.SIGINT, True)):
        process = start(tmp_path)
        wait_for_more(tmp_path, before, process)
        (os.killpg if whole_group else os.kill)(process.pid, number)  # Ctrl-C reaches the workers
        _, said = process.communicate(timeout=200)
        if number != signal.SIGKILL:
            assert process.returncode == 130, said
            assert "the same command goes on" in said
        before = rounds(tmp_path)
        known = json.loads((tmp_path / "sweep" / "sweep.json").read_text())["arms"]
        assert {arm["status"] for arm in known.values()} == {"waiting"}
    done = subprocess.run(
        sweep(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    arms = [
        Arm(f"tiny,clip_low={low}", recipe, (f"loss.clip_low={low}", f"train.rounds={ROUNDS}"))
        for low in ("0.1", "0.2")
    ]
    run_arms(arms, tmp_path / "whole")
    for arm in arms:
        cut, whole = (tmp_path / name / "runs" / arm.name for name in ("sweep", "whole"))
        assert metrics(cut) == metrics(whole)
        assert weights(cut) == weights(whole)
