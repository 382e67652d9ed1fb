"""Checkpoints: the same bits back, which are kept, and what does not fit."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from dllmzoo.errors import RunError
from dllmzoo.training.checkpoint import State, checkpoints, load, prune, read_state, save
from dllmzoo.training.loop import train
from tests.unit.training.small import budget, flat, learner, method, network


def adam(policy=None):
    """A learner with AdamW and a schedule that moves."""
    made = learner(policy)
    optimizer = torch.optim.AdamW(made.policy.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n))
    return replace(made, optimizer=optimizer, scheduler=scheduler)


def test_a_fresh_learner_goes_on_from_a_checkpoint_with_the_same_bits(tmp_path):
    whole = adam()
    list(train(method(), budget(), whole, seed=3, rounds=range(4)))
    first = adam()
    list(train(method(), budget(), first, seed=3, rounds=range(2)))
    state = State(2, 1.5, {"round": 1, "value": 0.25}, 0.125, 1)
    path = save(tmp_path, state, first)
    assert path == tmp_path / "checkpoints" / "round-000002"
    second = adam(network(7))  # other weights, all of which are replaced
    assert load(path, second) == state == read_state(path)
    assert second.scheduler.last_epoch == 2
    list(train(method(), budget(), second, seed=3, rounds=range(2, 4)))
    assert torch.equal(flat(second.policy), flat(whole.policy))


def test_only_trainable_weights_are_saved(tmp_path):
    made = learner()
    names = [name for name, _ in made.policy.named_parameters()]
    for name, parameter in made.policy.named_parameters():
        parameter.requires_grad_(name == names[0])
    path = save(tmp_path, State(1), made)
    assert list(load_file(path / "weights.safetensors")) == names[:1]


def test_weights_of_another_model_are_refused(tmp_path):
    made = learner()
    path = save(tmp_path, State(1), made)
    first = next(made.policy.parameters())
    first.requires_grad_(False)
    with pytest.raises(RunError, match="other tensors than the model of this recipe"):
        load(path, made)
    first.requires_grad_(True)
    first.data = first.data[:-1]
    with pytest.raises(RunError, match="other tensors"):
        load(path, made)


def test_a_save_that_fails_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    made = learner()
    save(tmp_path, State(1), made)
    monkeypatch.setattr(torch, "save", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save(tmp_path, State(2), made)
    assert [path.name for path in checkpoints(tmp_path)] == ["round-000001"]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["round-000001"]


@pytest.mark.parametrize(
    ("keep_last", "best", "kept"),
    [(2, None, [8, 10]), (1, 4, [4, 10]), (2, 10, [8, 10]), (9, 2, [2, 4, 6, 8, 10]), (1, 3, [10])],
)
def test_the_last_few_and_the_best_are_kept(tmp_path, keep_last, best, kept):
    for round in (2, 4, 6, 8, 10):
        path = tmp_path / "checkpoints" / f"round-{round:06d}"
        path.mkdir(parents=True)
        (path / "state.json").write_text("{}")
    for left in (".round-000006.tmp", ".round-000004.old"):
        (tmp_path / "checkpoints" / left).mkdir()
    prune(tmp_path, keep_last, best)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == [f"round-{round:06d}" for round in kept]


def test_a_kill_while_old_checkpoints_are_deleted_leaves_no_half_one(tmp_path, monkeypatch):
    for round in (1, 2, 3):
        path = tmp_path / "checkpoints" / f"round-{round:06d}"
        path.mkdir(parents=True)
        (path / "state.json").write_text("{}")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prune(tmp_path, 1, None)
    assert [path.name for path in checkpoints(tmp_path)] == ["round-000003"]
    prune(tmp_path, 1, None)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["round-000003"]
