"""Checkpoints written beside training: what they hold, who waits for them, what a failure does."""

import json
import threading
from dataclasses import replace
from itertools import islice

import pytest
import torch
from safetensors.torch import load_file

import dllmzoo
from dllmzoo.errors import HealthError, RunError
from dllmzoo.training import checkpoint, loop, saving, update
from dllmzoo.training.checkpoint import State, checkpoints, in_use, snapshot
from dllmzoo.training.loop import train
from dllmzoo.training.saving import Saver
from tests.runs import metrics, recipe, weights
from tests.unit.training.small import budget, learner, method

WRITE = checkpoint.write


def run(folder, *overrides, resume=None):
    return dllmzoo.train(recipe(folder), ["train.rounds=6", *overrides], resume=resume)


def saved(folder):
    return sorted(path.name[-2:] for path in (folder / "checkpoints").iterdir())


def adam():
    made = learner()
    optimizer = torch.optim.AdamW(made.policy.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n))
    return replace(made, optimizer=optimizer, scheduler=scheduler)


def saver(folder, made=None, **changes):
    options = {"keep_last": 2, "behind": True} | changes
    return Saver(folder, made or learner(), **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run whose training waits for each of its checkpoints, of rounds 2, 4 and 6."""
    folder = tmp_path_factory.mktemp("run") / "whole"
    list(run(folder, "train.async_save=false", "train.keep_last=3"))
    return folder


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path, monkeypatch, whole):
    gone_on = threading.Event()

    def slow(folder, held):
        if held.state.round == 2:
            assert gone_on.wait(60), "round 3 has to be trained meanwhile"
        return WRITE(folder, held)

    monkeypatch.setattr(checkpoint, "write", slow)
    for row in run(tmp_path, "train.keep_last=3"):
        if row["round"] == 3:
            assert checkpoints(tmp_path) == []
            gone_on.set()
    assert metrics(tmp_path) == metrics(whole) and weights(tmp_path) == weights(whole)
    assert saved(tmp_path) == saved(whole) == ["02", "04", "06"]
    for name in saved(whole):
        mine, other = (f / "checkpoints" / f"round-0000{name}" for f in (tmp_path, whole))
        written, wanted = (load_file(each / "weights.safetensors") for each in (mine, other))
        assert written.keys() == wanted.keys()
        assert all(torch.equal(written[key], wanted[key]) for key in wanted)
        for file in ("optimizer.pt", "scheduler.pt"):
            found, expected = (torch.load(each / file) for each in (mine, other))
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
        states = [json.loads((each / "state.json").read_text()) for each in (mine, other)]
        first, second = (each | {"minutes": 0} for each in states)
        assert first == second


def test_a_snapshot_does_not_change_with_training():
    made = adam()
    list(train(method(), budget(), made, seed=3, rounds=range(1)))
    taken, used = snapshot(State(1), made), in_use(State(1), made)
    moments = [each["exp_avg"].clone() for each in used.optimizer["state"].values()]
    before = {name: value.clone() for name, value in used.weights.items()}
    list(train(method(), budget(), made, seed=3, rounds=range(1, 2)))
    for name, value in taken.weights.items():
        assert torch.equal(value, before[name]) and not torch.equal(value, used.weights[name])
    kept = [each["exp_avg"] for each in taken.optimizer["state"].values()]
    assert all(torch.equal(found, moment) for found, moment in zip(kept, moments, strict=True))
    assert taken.scheduler["last_epoch"] == 1
    assert {each["lr"] for each in taken.optimizer["param_groups"]} == {1e-2 / 2}


def test_the_next_save_waits_until_the_one_before_is_complete(tmp_path, monkeypatch):
    asked, order = threading.Event(), []

    def write(folder, held):
        order.append(f"{held.state.round} begins")
        assert held.state.round == 2 or asked.wait(30)
        order.append(f"{held.state.round} ends")
        return WRITE(folder, held)

    def copied(state, made):
        order.append(f"{state.round} copied")
        return snapshot(state, made)

    class Asked(Saver):
        def wait(self):
            if self._going_on is not None:  # the second save is here
                asked.set()
            super().wait()

    monkeypatch.setattr(checkpoint, "write", write)
    monkeypatch.setattr(checkpoint, "snapshot", copied)
    with Asked(tmp_path, learner(), keep_last=2, behind=True) as made:
        made.save(State(1), now=False)
        made.save(State(2), now=False)
    assert order == ["1 copied", "1 begins", "1 ends", "2 copied", "2 begins", "2 ends"]
    assert saved(tmp_path) == ["01", "02"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupt_and_a_failure_wait_for_the_write(tmp_path, monkeypatch, whole, error):
    leaving, calls = threading.Event(), []

    def slow(folder, held):
        assert leaving.wait(60)
        return WRITE(folder, held)

    class Leaving(Saver):
        def __exit__(self, *about):
            leaving.set()
            return super().__exit__(*about)

    def breaks(*args, **options):
        calls.append(1)
        if len(calls) == 3:
            raise error
        update.update(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write", slow)
        patch.setattr(saving, "Saver", Leaving)
        patch.setattr(loop, "update", breaks)
        with pytest.raises(error):
            list(run(tmp_path))
    assert saved(tmp_path) == ["02"]
    list(run(tmp_path, resume="auto"))
    assert metrics(tmp_path) == metrics(whole) and weights(tmp_path) == weights(whole)


def fails_at(round):
    def write(folder, held):
        if held.state.round == round:
            raise OSError(28, "No space left on device")
        return WRITE(folder, held)

    return write


def test_a_full_disk_stops_the_run_and_costs_no_good_checkpoint(tmp_path, monkeypatch, whole):
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write", fails_at(4))
        with pytest.raises(RunError, match=r"round-000004 cannot be written.*No space") as error:
            list(run(tmp_path))
    assert str(error.value).count("\n") == 0 and "round-000002 is complete" in str(error.value)
    assert error.value.exit_code == 1
    assert saved(tmp_path) == ["02"] and not (tmp_path / "final").exists()
    list(run(tmp_path, resume="auto"))
    assert metrics(tmp_path) == metrics(whole) and weights(tmp_path) == weights(whole)


def test_a_write_that_failed_is_told_at_the_next_round(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write", fails_at(2))
    failed = threading.Event()

    class Failed(Saver):
        def _write(self, held):
            try:
                super()._write(held)
            finally:
                failed.set()

        def check(self):
            if self._going_on is not None:
                assert failed.wait(30)
                with pytest.raises(RunError):
                    self._going_on.result(30)
            super().check()

    monkeypatch.setattr(saving, "Saver", Failed)
    with pytest.raises(RunError, match="nothing was saved before"):
        list(run(tmp_path))
    assert [row["round"] for row in metrics(tmp_path)] == [0, 1, 2]


def test_a_caller_that_leaves_while_a_write_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write", fails_at(2))
    going = run(tmp_path)
    list(islice(going, 3))
    with pytest.raises(RunError, match="round-000002 cannot be written"):
        going.close()


def test_a_failed_write_does_not_hide_the_error_that_ends_the_run(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(checkpoint, "write", fails_at(1))
    with pytest.raises(ZeroDivisionError), saver(tmp_path) as made:
        made.save(State(1), now=False)
        raise ZeroDivisionError
    assert caplog.text.count("round-000001 cannot be written") == 1
    with pytest.raises(RunError, match="cannot be written"), saver(tmp_path) as made:
        made.save(State(1), now=False)
    assert caplog.text.count("cannot be written") == 1


def test_a_run_that_asks_for_it_writes_in_its_own_thread(tmp_path, monkeypatch):
    threads = []

    def write(folder, held):
        threads.append(threading.current_thread() is threading.main_thread())
        return WRITE(folder, held)

    monkeypatch.setattr(checkpoint, "write", write)
    for behind, now in ((True, False), (True, True), (False, False)):
        with saver(tmp_path, behind=behind) as made:
            made.save(State(1), now=now)
    assert threads == [False, True, True]


def test_old_checkpoints_go_when_the_new_one_is_complete(tmp_path, monkeypatch):
    with saver(tmp_path, keep_last=1) as made:
        for round in (1, 2):
            made.save(State(round, best={"round": 1, "value": 1.0}), now=False)
        made.save(State(3), now=False)
        made.wait()
        assert saved(tmp_path) == ["03"]
        monkeypatch.setattr(checkpoint, "write", fails_at(4))
        made.save(State(4), now=False)
        with pytest.raises(RunError, match="round-000003 is complete"):
            made.wait()
    assert saved(tmp_path) == ["03"]


def test_a_failed_write_does_not_hide_that_the_numbers_broke(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(checkpoint, "write", fails_at(1))
    broken = recipe(tmp_path) | {"optimizer": {"lr": 1e25, "max_grad_norm": None}}
    overrides = ["train.save_every=1", "train.rounds=3", "train.log_rollouts=null"]
    with pytest.raises((HealthError, RunError)) as error:
        list(dllmzoo.train(broken, [*overrides, "train.async_save=true"]))
    # whichever comes first, both are said; a broken update is never called a full disk
    assert "gradient norm" in str(error.value) or "broken" in str(error.value)
    assert error.value.exit_code == 3
    assert "round-000001 cannot be written" in caplog.text
