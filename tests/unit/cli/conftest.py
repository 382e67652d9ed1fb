"""The command line called in this process: `cli("list", "loss")` gives code, output and errors."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from dllmzoo.cli._app import run


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Runs a command; returns how it ended."""

    def call(*words: object) -> Ended:
        capsys.readouterr()
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call


RECIPE = """\
format: 1
title: A network of a few hundred weights
stage: rl
seed: 0
model:
  name: llada
  config: {d_model: 16, n_layers: 1, n_heads: 2, mlp_hidden_size: 16, max_sequence_length: 64}
  tokenizer: "characters:01234="
task: {name: sudoku, prompt_style: compact, rewards: {cells: 1.0}}
sampler: {name: low_confidence, answer_length: 16, block_length: 16, steps: 4, temperature: 1.0}
selector: {name: entropy, steps: 2}
likelihood: {name: denoising_steps}
advantage: {name: group_relative}
loss: {name: clipped_surrogate, kl: none}
optimizer: {lr: 1e-3}
train: {rounds: 2, prompts: 2, group_size: 4}
evaluate: {examples: 8}
smoke: {train.rounds: 1}
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> Path:
    """A recipe of a run of a second, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    Path("tiny.yaml").write_text(RECIPE)
    return Path("tiny.yaml")


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory) -> Path:
    """The folder of a finished run; do not write to it."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.yaml").write_text(RECIPE)
    assert run(["train", str(folder / "tiny.yaml"), f"output={folder / 'run'}", "--quiet"]) == 0
    return folder / "run"
