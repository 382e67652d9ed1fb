"""`dllmzoo eval` on the tiny weights, as processes: killed, shared, and of an adapter."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from dllmzoo import catalogue
from dllmzoo.cli._app import run
from dllmzoo.models._load import load_model, load_tokenizer
from dllmzoo.models._lora import add_lora
from dllmzoo.recipe.sections import Lora
from dllmzoo.training.export import save_policy

WEIGHTS = "llada-tiny-sudoku"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def evaluated(capsys, *words):
    """What `dllmzoo eval WORDS --json` prints, in this process."""
    capsys.readouterr()
    code = run(["eval", *map(str, words), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def both(name):
    """The bytes of an answer file and of its settings."""
    return Path(f"{name}.jsonl").read_bytes(), Path(f"{name}.settings.json").read_bytes()


def test_the_tiny_model_solves_what_its_card_says(capsys):
    words = ("--examples", 64, "--steps", 8, "-o", "x.jsonl")
    found = evaluated(capsys, WEIGHTS, *words)
    low, high = (found["metrics"][f"solved_rate_{end}"] for end in ("low", "high"))
    assert low < catalogue.card("weights", WEIGHTS)["scores"]["eval/solved_rate"] < high
    assert found["forwards_per_answer"] == 8.0
    rows = [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()]
    assert len(rows) == len({row["id"] for row in rows}) == 64


def test_pass_at_k_grows_and_one_draw_each_is_its_start(capsys):
    found = evaluated(capsys, WEIGHTS, "--examples", 24, "--samples", 4)["metrics"]
    assert found["pass@1"] == pytest.approx(found["solved_rate"])
    assert found["pass@1"] < found["pass@2"] < found["pass@4"]


def test_an_adapter_is_evaluated_as_it_is_and_as_its_merged_weights(capsys, tmp_path):
    policy = add_lora(load_model(WEIGHTS), Lora(rank=2), 0)
    with torch.no_grad():
        for name, value in policy.named_parameters():
            if ".lora_B." in name:
                value.fill_(0.02)
    policy.peft_config["default"].base_model_name_or_path = WEIGHTS
    tokenizer = load_tokenizer(WEIGHTS)
    save_policy(tmp_path / "adapter", policy, tokenizer)
    save_policy(tmp_path / "merged", policy.merge_and_unload(), tokenizer)
    words = ("egspo_sa_sudoku", "--examples", 16)
    plain = evaluated(capsys, WEIGHTS, *words, "-o", "plain.jsonl")
    adapter = evaluated(capsys, tmp_path / "adapter", *words, "-o", "adapter.jsonl")
    merged = evaluated(capsys, tmp_path / "merged", *words, "-o", "merged.jsonl")
    assert Path("adapter.jsonl").read_bytes() == Path("merged.jsonl").read_bytes()
    assert Path("adapter.jsonl").read_bytes() != Path("plain.jsonl").read_bytes()
    assert adapter["metrics"] == merged["metrics"] and plain["policy"] != adapter["policy"]


@pytest.mark.slow  # two processes that import torch and transformers
def test_a_killed_evaluation_goes_on_to_the_same_bytes(capsys):
    words = [WEIGHTS, "--examples", "48", "--samples", "4", "--batch", "2"]
    evaluated(capsys, *words, "-o", "whole.jsonl")
    command = [sys.executable, "-m", "dllmzoo", "eval", *words, "-o", "cut.jsonl"]
    with Path("log").open("w") as log:
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log)
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        if Path("cut.jsonl").exists() and Path("cut.jsonl").read_bytes().count(b"\n") >= 6:
            break
        time.sleep(0.002)
    process.kill()
    process.wait()
    cut = Path("cut.jsonl").read_bytes()
    assert both("whole")[0].startswith(cut) and b"\n" in cut, Path("log").read_text()
    assert "progress" in json.loads(Path("cut.settings.json").read_text())
    Path("cut.jsonl").write_bytes(cut + b'{"id": 5, "sam')  # a line that the power cut tore
    evaluated(capsys, *words, "-o", "cut.jsonl", "--resume")
    assert both("cut") == both("whole")


@pytest.mark.slow  # three processes that import torch and transformers
def test_ten_examples_of_three_processes_are_those_of_one(capsys):
    words = [WEIGHTS, "--examples", "10", "--samples", "2", "--batch", "2"]
    evaluated(capsys, *words, "-o", "one.jsonl")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3"]
    launch += ["--master-port", str(29000 + os.getpid() % 300), "-m", "dllmzoo", "eval"]
    done = subprocess.run(
        [*launch, *words, "-o", "three.jsonl"], env=ENVIRONMENT, capture_output=True, text=True,
        timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert both("three")[0] == both("one")[0]
    assert done.stdout.count("solved_rate") == 1
    rows = [json.loads(line) for line in Path("three.jsonl").read_text().splitlines()]
    assert len({(row["id"], row["sample"]) for row in rows}) == len(rows) == 20
