"""TensorBoard, W&B and trackio by name: what they are told, and what is said where one fails."""

import pytest
from huggingface_hub import constants

import dllmzoo
from dllmzoo.errors import RunError
from dllmzoo.recipe import load
from dllmzoo.training.trackers import start_trackers
from tests.runs import recipe


class Told:
    """In place of an accelerator: keeps what the trackers are told."""

    def __init__(self, error=None):
        self.error = error
        self.trackers = ["begun"]
        self.said = {}

    def init_trackers(self, project, init_kwargs):
        self.project, self.said = project, init_kwargs
        if self.error:
            raise self.error


def started(tmp_path, monkeypatch, *names, offline=False, error=None, **environ):
    for name in ("WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(constants, "is_offline_mode", lambda: offline)
    told = Told(error)
    made = load(recipe(tmp_path / "run", train={"trackers": list(names), "prompts": 2}))
    start_trackers(told, made, tmp_path / "run")
    return told


def test_a_run_is_called_as_its_folder_and_comes_with_its_recipe(tmp_path, monkeypatch):
    told = started(tmp_path, monkeypatch, "wandb")
    options = told.said["wandb"]
    assert (told.project, options["name"]) == ("dllmzoo", "run")
    assert options["config"]["train"]["prompts"] == 2 and "mode" not in options
    assert options["dir"] == str(tmp_path / "run" / "trackers")
    assert (tmp_path / "run" / "trackers").is_dir()
    assert told.said["trackio"]["name"] == "run"


def test_the_environment_names_another_project(tmp_path, monkeypatch):
    assert started(tmp_path, monkeypatch, "wandb", WANDB_PROJECT="mine").project == "mine"


def test_where_the_network_is_off_wandb_writes_for_later(tmp_path, monkeypatch):
    told = started(tmp_path / "a", monkeypatch, "wandb", offline=True)
    assert told.said["wandb"]["mode"] == "offline"
    told = started(tmp_path / "b", monkeypatch, "wandb", offline=True, WANDB_MODE="online")
    assert "mode" not in told.said["wandb"], "the user's own word counts more"


@pytest.mark.parametrize(("name", "hint"), [
    ("wandb", "WANDB_MODE=offline needs no account, or leave it out"), ("trackio", "leave it out"),
])  # fmt: skip
def test_a_tracker_that_cannot_begin_ends_the_run_with_a_way_out(
    tmp_path, monkeypatch, name, hint
):  # fmt: skip
    with pytest.raises(RunError, match=rf"trackers: {name} cannot begin \(OSError: no.*{hint}"):
        started(tmp_path, monkeypatch, name, error=OSError("no account"))


def test_wandb_keeps_a_run_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="pip install wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train = {"rounds": 1, "prompts": 2, "group_size": 2, "trackers": ["wandb"]}
    list(dllmzoo.train(recipe(tmp_path / "run", train=train)))
    assert list((tmp_path / "run" / "trackers").rglob("*.wandb"))
