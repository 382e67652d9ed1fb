"""One process of several is killed: all end soon and say so; the run goes on where it was saved."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

import dllmzoo
from tests.processes import PROJECT, environment, port, torchrun
from tests.runs import metrics, recipe

TRAIN = {
    "rounds": 30, "prompts": 4, "group_size": 2, "micro_batch": 8, "rollout_batch": 8,
    "save_every": 3, "log_rollouts": None,
}  # fmt: skip


def workers(launcher):
    """Process id of each rank below a launcher."""
    found = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        for entry in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"RANK="):
                found[int(entry.removeprefix(b"RANK="))] = int(child)
    return found


def wait_for_rounds(folder, rounds, process, said):
    until = time.monotonic() + 200
    file = folder / "metrics.jsonl"
    while time.monotonic() < until and process.poll() is None:
        if file.exists() and file.read_bytes().count(b"\n") > rounds:
            return
        time.sleep(0.02)
    raise AssertionError(f"no {rounds} rounds: {said.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A sharded run by `accelerate launch` whose second process was killed after seven rounds."""
    folder = tmp_path_factory.mktemp("killed")
    file, said = folder / "run.yaml", folder / "run.log"
    file.write_text(yaml.safe_dump(recipe(folder / "run", train=TRAIN)))
    config = PROJECT / "recipes" / "_accelerate" / "fsdp2.yaml"
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(config)]
    command += ["--num_processes", "2", "--main_process_port", str(port(1))]
    with said.open("w") as output:
        launcher = subprocess.Popen(
            [*command, "-m", "dllmzoo", "train", str(file)], env=environment(), stdout=output,
            stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for_rounds(folder / "run", 7, launcher, said)
        victims = workers(launcher.pid)
        assert sorted(victims) == [0, 1]
        os.kill(victims[1], signal.SIGKILL)
        code = launcher.wait(timeout=60)
    finally:
        if launcher.poll() is None:
            os.killpg(launcher.pid, signal.SIGKILL)
    return folder, code, said.read_text(), victims


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run on one process, never killed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    list(dllmzoo.train(recipe(folder, train=TRAIN)))
    return folder


def same(folder, whole):
    rows, others = metrics(whole), metrics(folder)
    assert [row["round"] for row in others] == list(range(31))
    for row, other in zip(rows, others, strict=True):
        assert other.get("loss") == pytest.approx(row.get("loss"), abs=1e-5)
    weights, second = (load_file(f / "final" / "model.safetensors") for f in (whole, folder))
    assert weights.keys() == second.keys()
    for name, value in weights.items():
        torch.testing.assert_close(second[name], value, atol=1e-4, rtol=0)
    return True


@pytest.mark.slow  # three processes that import torch and transformers, shared by this file
@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc, which Linux has")
def test_all_processes_end_with_a_word_on_how_to_go_on(killed):
    folder, code, said, victims = killed
    assert code == 1, said
    assert "2 processes" in said and "--resume auto" in said, said
    assert f"{folder / 'run' / 'checkpoints' / 'round-'}" in said
    assert not any(Path(f"/proc/{victim}").exists() for victim in victims.values())


@pytest.mark.slow  # see above
@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc, which Linux has")
def test_one_process_goes_on_where_two_were_killed(killed, whole):
    copy = killed[0] / "one"
    shutil.copytree(killed[0] / "run", copy)
    list(dllmzoo.train(recipe(copy, train=TRAIN), resume="auto"))
    assert same(copy, whole)


@pytest.mark.slow  # two processes that import torch and transformers
@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc, which Linux has")
def test_two_copies_under_torchrun_go_on_where_two_shards_were_killed(killed, whole):
    folder, file = killed[0] / "run", str(killed[0] / "run.yaml")
    done = subprocess.run(
        [*torchrun(2, 2), "-m", "dllmzoo", "train", file, "--resume", "auto"],
        env=environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert same(folder, whole)
