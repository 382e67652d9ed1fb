"""Weights of a hub: downloaded once, found without a network, one quick error otherwise."""

import time
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from dllmzoo import hub as library
from dllmzoo import load_model
from dllmzoo.cli._app import run
from dllmzoo.errors import ModelError
from dllmzoo.models._load import load_tokenizer
from dllmzoo.models._source import read_config, unreachable
from tests.fake_hub import COMMIT, Hub, serve, unplug
from tests.unit.models.tiny import tiny, tokenizer

REPO = "models/me/tiny"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A checkpoint in two shards, with what a repository holds beside it."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny().save_pretrained(folder, max_shard_size="3KB")
    tokenizer().save_pretrained(folder)
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "model.safetensors.index.json" in made
    return made | {"README.md": b"about", "run.py": b"print(1)", "onnx/model.safetensors": b"x"}


@pytest.fixture
def hub(files, tmp_path, monkeypatch):
    made = Hub({REPO: dict(files)})
    with serve(made):
        unplug(monkeypatch, tmp_path, made.address)
        yield made


def sent(hub):
    return {name for name, size in hub.sent.items() if size}


def same(model):
    return all(
        torch.equal(model.state_dict()[n], value) for n, value in tiny().state_dict().items()
    )


def test_each_part_of_a_checkpoint_is_fetched_when_it_is_read(hub):
    assert read_config("me/tiny")["model_type"] == "llada"
    assert sent(hub) == {"config.json"}
    assert load_tokenizer("me/tiny")("01").input_ids == [0, 1]
    assert not any(name.endswith(".safetensors") for name in sent(hub))
    assert same(load_model("me/tiny"))
    assert not {"run.py", "README.md", "onnx/model.safetensors"} & sent(hub)


def test_what_was_read_once_is_there_without_a_network(hub, monkeypatch):
    load_model("me/tiny")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    asked = len(hub.asked)
    assert same(load_model("me/tiny"))
    assert len(hub.asked) == asked


def test_a_commit_that_is_there_whole_is_read_without_asking(hub):
    load_model(f"me/tiny@{COMMIT}")
    asked = len(hub.asked)
    assert same(load_model(f"me/tiny@{COMMIT}"))
    assert len(hub.asked) == asked


def test_a_file_that_is_missing_offline_is_named(hub, monkeypatch):
    read_config("me/tiny")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        ModelError, match=r"fetched \(tokenizer_config.json is missing; the network"
    ):
        load_tokenizer("me/tiny")
    with pytest.raises(ModelError, match=r"fetched \(model.safetensors is missing; the network is"):
        load_model("me/tiny", tokenizer=tokenizer())
    with pytest.raises(ModelError) as caught:
        load_model("GSAI-ML/LLaDA-8B-Instruct")
    assert str(caught.value) == (
        "GSAI-ML/LLaDA-8B-Instruct is not on this machine and cannot be fetched (config.json is "
        "missing; the network is switched off by --offline or HF_HUB_OFFLINE). On a machine with a "
        "network run `dllmzoo pull llada-8b-instruct` and copy the folder "
        "weights/llada-8b-instruct to the same place below the current folder here; or write "
        "another place as `model.weights: FOLDER`"
    )


def test_a_hub_id_without_a_card_is_pulled_by_its_id():
    said = str(unreachable("me/tiny@abc", OSError("no connection\nmore")))
    assert "cannot be fetched (no connection)" in said
    assert "run `dllmzoo pull me/tiny@abc` and copy the folder weights/tiny to" in said
    assert str(unreachable(Path("here"), OSError("torn\nmore"))) == "here cannot be loaded: torn"


def test_a_pulled_folder_stands_for_its_repository(hub, monkeypatch):
    assert run(["pull", "me/tiny"]) == 0
    asked = len(hub.asked)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert same(load_model("me/tiny"))
    assert load_tokenizer(f"me/tiny@{COMMIT}")("01").input_ids == [0, 1]
    assert len(hub.asked) == asked
    with pytest.raises(ModelError, match=r"config.json is missing"):
        read_config("me/tiny@" + "f" * 40)  # another commit was pulled
    Path("weights/tiny/.pulled.json").unlink()  # a download that was not finished
    with pytest.raises(ModelError, match=r"config.json is missing"):
        read_config("me/tiny")


def test_a_hub_that_does_not_answer_is_asked_once(tmp_path, monkeypatch, caplog):
    unplug(monkeypatch, tmp_path)
    start = time.monotonic()
    for _ in range(3):
        with pytest.raises(ModelError, match=r"config.json is missing; .*:9 does not answer"):
            load_model("me/tiny")
    assert time.monotonic() - start < 5
    assert [record.name for record in caplog.records] == ["dllmzoo"]
    assert "only what is on this machine is read" in caplog.text
    assert library.why_offline().endswith("does not answer (ConnectError)")


def test_what_the_repository_lacks_is_named(hub):
    del hub.repos[REPO]["tokenizer_config.json"]
    with pytest.raises(ModelError, match=r"the repository has no tokenizer_config.json"):
        load_tokenizer("me/tiny")
    with pytest.raises(ModelError, match=r"there is no such repository, or it is private"):
        read_config("me/nothing")
