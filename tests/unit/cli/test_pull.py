"""`dllmzoo pull` from a hub on this machine, and what is said where there is none."""

import json
import time
from pathlib import Path

import pytest

from dllmzoo import catalogue
from tests.fake_hub import COMMIT, Hub, serve, unplug

MODEL, DATA = "models/GSAI-ML/LLaDA-8B-Instruct", "datasets/openai/gsm8k"
WEIGHTS = bytes(range(256)) * 40
FILES = {
    "config.json": b'{"model_type": "llada"}',
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b"{}",
    "README.md": b"read me",
    "modeling_llada.py": b"print(1)",
    "pytorch_model.bin": b"pickled",
    "original/model.safetensors": b"another format",
    ".gitattributes": b"x",
}
NEEDED = {
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "README.md",
}


@pytest.fixture
def unplugged(tmp_path, monkeypatch):
    unplug(monkeypatch, tmp_path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    rows = b'{"question": "1+1", "answer": "#### 2"}\n'
    made = Hub({MODEL: dict(FILES), DATA: {"main/train.jsonl": rows, "README.md": b"# GSM8K"}})
    with serve(made):
        unplug(monkeypatch, tmp_path, made.address)
        yield made


def downloads(hub):
    return [each for each in hub.asked if each.startswith("GET") and "/resolve/" in each]


def test_a_model_comes_with_what_is_needed_and_nothing_else(cli, hub):
    done = cli("pull", "llada-8b-instruct")
    assert done.code == 0, done.err
    folder = Path("weights/llada-8b-instruct")
    assert {path.name for path in folder.iterdir()} == NEEDED | {".pulled.json", ".cache"}
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    found = json.loads((folder / ".pulled.json").read_text())
    assert (found["repo"], found["commit"]) == ("GSAI-ML/LLaDA-8B-Instruct", COMMIT)
    for said in (COMMIT, "the newest revision is today", "MIT (card), mit (hub)", "5, 10.0 KiB"):
        assert said in done.out
    assert "verified 5 files; recipes started from this folder find it" in done.out


def test_a_second_pull_downloads_nothing(cli, hub):
    assert cli("pull", "llada-8b-instruct").code == 0
    before = len(downloads(hub))
    assert cli("pull", "llada-8b-instruct").code == 0
    assert before == 5 and len(downloads(hub)) == before


def test_a_dry_run_only_says_what_would_come(cli, hub):
    done = cli("pull", "GSAI-ML/LLaDA-8B-Instruct", "--revision", COMMIT, "--dry-run")
    assert done.code == 0 and "10.0 KiB" in done.out and "today" not in done.out
    assert not Path("weights").exists() and not downloads(hub)


def test_json_has_every_file_with_its_hash(cli, hub):
    done = cli("pull", "llada-8b-instruct", "--json", "-o", "here")
    found = json.loads(done.out)
    assert {file["name"] for file in found["files"]} == NEEDED
    assert (found["folder"], found["licence"], found["card_licence"]) == ("here", "mit", "MIT")
    assert Path("here/config.json").is_file()


def test_a_damaged_file_is_fetched_again_and_then_refused(cli, hub):
    hub.spoil["model.safetensors"] = 1
    done = cli("pull", "llada-8b-instruct", "-o", "one")
    assert done.code == 0
    assert "model.safetensors has another hash than the hub says; it is fetched again" in done.err
    assert Path("one/model.safetensors").read_bytes() == WEIGHTS
    hub.spoil["config.json"] = 9
    done = cli("pull", "llada-8b-instruct", "-o", "two")
    assert done.code == 1
    assert "not what the hub says, even at the second attempt: config.json has another" in done.err
    assert not Path("two/.pulled.json").exists()


def test_a_broken_download_goes_on_where_it_stopped(cli, hub):
    big = WEIGHTS * 2400  # 24.6 MB: more than the library keeps in memory
    hub.repos[MODEL]["model.safetensors"] = big
    hub.cut["model.safetensors"] = len(big) - 1000
    assert cli("pull", "llada-8b-instruct").code == 0
    assert Path("weights/llada-8b-instruct/model.safetensors").read_bytes() == big
    assert hub.sent["model.safetensors"] < 1.5 * len(big)


def test_a_data_set_is_found_by_its_task_without_a_network(cli, hub):
    assert cli("pull", "gsm8k-main").code == 2  # the card's commit is another one
    done = cli("pull", "datasets/openai/gsm8k", "--revision", "main")
    assert done.code == 0 and Path("data/gsm8k/main/train.jsonl").is_file()
    asked = len(hub.asked)
    from dllmzoo.tasks._tables import read_hub

    table = read_hub("openai/gsm8k", None, "train", None)
    assert list(table.rows) == [{"question": "1+1", "answer": "#### 2"}]
    assert len(hub.asked) == asked


def test_what_a_hub_refuses_is_explained(cli, hub):
    done = cli("pull", "GSAI-ML/LLaDA-8B-Instruct@nothing")
    assert done.code == 2 and "it has no such revision" in done.err
    done = cli("pull", "nobody/nothing")
    assert done.code == 2 and "there is no such repository, or it is private" in done.err
    hub.gated = (MODEL,)
    done = cli("pull", "llada-8b-instruct")
    assert done.code == 2 and f"agree at {hub.address}/GSAI-ML/LLaDA-8B-Instruct" in done.err
    hub.gated = ()
    del hub.repos[MODEL]["model.safetensors"]
    assert "has no weights in safetensors" in cli("pull", "llada-8b-instruct").err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("llada-8b-instrukt", "Did you mean 'llada-8b-instruct'"),
        ("sudoku-4x4", "the data of sudoku-4x4 cannot be pulled; they are: generated"),
        ("llada-tiny-sudoku", "come with the library: model.weights=llada-tiny-sudoku"),
    ],
)
def test_what_cannot_be_pulled_is_said(cli, unplugged, name, said):
    done = cli("pull", name)
    assert done.code == 2 and said in done.err


def test_a_full_disk_is_seen_before_anything_is_fetched(cli, hub, monkeypatch):
    from dllmzoo.cli import pull

    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(pull.shutil, "disk_usage", lambda path: usage)
    done = cli("pull", "llada-8b-instruct")
    assert done.code == 1 and "has room for 100 B, and 10.0 KiB are to come" in done.err
    assert not downloads(hub)


def test_a_hub_that_does_not_answer_is_one_quick_error(cli, unplugged):
    start = time.monotonic()
    done = cli("pull", "llada-8b-instruct")
    assert time.monotonic() - start < 5
    assert done.code == 1
    assert "cannot be pulled: http://127.0.0.1:9 does not answer (ConnectError)" in done.err


def test_offline_pulls_nothing(cli, hub):
    done = cli("pull", "llada-8b-instruct", "--offline")
    assert done.code == 2
    assert (
        "switched off by --offline or HF_HUB_OFFLINE; run it where there is a network" in done.err
    )
    assert hub.asked == []


def test_every_card_of_the_hub_has_a_name_that_can_be_pulled():
    from dllmzoo.cli.pull import HUB_ID, named

    for card in catalogue.cards("models"):
        assert named(card.name)[:2] == ("model", card.hub_id)
        assert HUB_ID.fullmatch(card.hub_id)
