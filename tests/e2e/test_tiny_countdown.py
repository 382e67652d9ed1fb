"""The tiny Countdown model: its card's score, and rounds of reinforcement learning from it."""

import json

import pytest
import torch
from safetensors.torch import load_file

import dllmzoo
from dllmzoo import catalogue
from dllmzoo.cli._app import run
from dllmzoo.recipe import load
from dllmzoo.records import Key

WEIGHTS, RECIPE = "llada-tiny-countdown", "egspo_sa_countdown"


@pytest.mark.parametrize(
    ("steps", "name"), [(10, "eval/solved_rate"), (4, "eval/steps4/solved_rate")]
)
def test_the_base_solves_what_its_card_says(steps, name, tmp_path, capsys):
    """All held-out games; other machines may round a few of them to the other side."""
    words = ("--steps", str(steps), "-o", str(tmp_path / "x.jsonl"), "--json")
    assert run(["eval", WEIGHTS, "sft_countdown_tiny", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answers"] == 474 and found["forwards_per_answer"] == steps
    said = catalogue.card("weights", WEIGHTS)["scores"][name]
    assert found["metrics"]["solved_rate"] == pytest.approx(said, abs=0.015)


def test_two_rounds_run_from_the_shipped_weights(tmp_path):
    changes = [
        "train.rounds=2", "train.prompts=8", "train.group_size=4", "train.log_rollouts=1",
        "optimizer.warmup=1", "evaluate.every=null", "evaluate.examples=8",
        "evaluate.also_steps=[]", f"output={tmp_path / 'run'}",
    ]  # fmt: skip
    rows = list(dllmzoo.train(load(RECIPE, overrides=changes)))
    assert [row["round"] for row in rows] == [0, 1, 2]
    assert rows[1]["ratio"] == 1.0
    assert all(0 < row["reward"] < 1 and row["grad_norm"] > 0 for row in rows[1:])
    shipped = catalogue.weights_folder(WEIGHTS)
    assert shipped is not None
    before = load_file(shipped / "model.safetensors")
    after = load_file(tmp_path / "run" / "final" / "model.safetensors")
    assert before.keys() == after.keys()
    assert not any(torch.equal(before[name], after[name]) for name in before)


def test_the_recipe_asks_for_numbers_that_the_base_never_saw_and_keeps_its_held_out_sets():
    task, shown = load(RECIPE).task, load("sft_countdown_tiny").task
    key = Key(0, 1, "games")
    drawn = [game["numbers"] for game in task.draw(512, key)]
    assert max(max(numbers) for numbers in drawn) == 16
    held = {tuple(sorted(game["numbers"])) for game in [*shown.test(474), *task.test(512)]}
    assert len(shown.test(512)) == 474
    assert not held & {tuple(sorted(numbers)) for numbers in drawn}
    assert not held & {tuple(sorted(game["numbers"])) for game in shown.draw(512, key)}
