"""Runs over worker processes: the same numbers, their share of the cores, and deaths survived."""

import os

import pytest

import dllmzoo
from dllmzoo.lab._pool import _share_of_cores
from dllmzoo.lab.runs import Arm, run_arms
from tests.runs import metrics
from tests.unit.lab.small import BREAKS, write_recipe

pytestmark = pytest.mark.slow  # workers import torch: seconds each


@pytest.fixture
def forgotten():
    """The loss of the plug-in, which this process registers too when it checks the arms."""
    with dllmzoo.LOSSES.temporarily("breaks_here"):
        yield


def test_processes_give_the_numbers_of_this_one_and_a_death_fails_one_arm_alone(
    tmp_path, forgotten
):
    (tmp_path / "breaks.py").write_text(BREAKS)
    tiny = write_recipe(tmp_path / "tiny.yaml")
    breaking = write_recipe(
        tmp_path / "breaking.yaml", loss={"name": "breaks_here", "how": "exit"},
        plugins=[str(tmp_path / "breaks.py")],
    )  # fmt: skip
    arms = [
        Arm("dies", breaking), Arm("stops", breaking, ("loss.how=nan",)),
        *(Arm(f"s{seed}", tiny, (f"seed={seed}",)) for seed in (0, 1)),
    ]  # fmt: skip
    outcomes = run_arms(arms, tmp_path / "many", 2)
    assert [o.status for o in outcomes] == ["failed", "stopped", "finished", "finished"]
    assert outcomes[0].message == "its process ended with exit code 7"
    run_arms(arms[2:3], tmp_path / "alone")
    assert metrics(tmp_path / "many" / "runs" / "s0") == metrics(tmp_path / "alone" / "runs" / "s0")


def test_workers_share_the_cores_and_never_wait_by_spinning(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    with _share_of_cores(3):  # 8 // 3 = 2
        assert os.environ["OMP_NUM_THREADS"] == "2"
        assert os.environ["OMP_WAIT_POLICY"] == "passive"
    assert "OMP_NUM_THREADS" not in os.environ
    with _share_of_cores(99):
        assert os.environ["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with _share_of_cores(2):  # the user's own limit is kept
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "1"
