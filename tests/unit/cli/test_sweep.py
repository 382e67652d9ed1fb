"""`dllmzoo sweep`: combinations of values as one resumable folder, and its table."""

import csv
import json
from pathlib import Path

import pytest


@pytest.fixture
def swept(cli, recipe):
    """A sweep of four runs, and how it ended."""
    words = ("sweep", recipe, "loss.clip_low=0.1,0.2", "train.rounds=1", "--seeds", 2)
    return words, cli(*words)


def test_every_combination_is_run_and_shown(swept):
    _, done = swept
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("[1/4] tiny,clip_low=0.1,seed=0: finished, solved_rate")
    headers = next(line for line in lines if line.startswith("run "))
    assert headers.split() == ["run", "ended", "metric", "first", "last", "95", "%", "rounds",
                               "minutes", "FLOPs"]  # fmt: skip
    assert sum(line.startswith("tiny,clip_low=0.2,seed=") for line in lines) == 2
    assert "over the seeds" in lines  # and a line for each setting
    assert any(line.startswith("tiny,clip_low=0.2  ") for line in lines)
    assert lines[-1] == "wrote table.json and table.csv in runs/sweep_tiny"


def test_the_tables_hold_every_number(swept):
    folder = Path("runs/sweep_tiny")
    table = json.loads((folder / "table.json").read_text())
    assert [run["seed"] for run in table["runs"]] == [0, 1, 0, 1]
    assert all(run["flops"] > 0 and run["samples"] == 8 for run in table["runs"])
    with (folder / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["loss.clip_low"] for row in rows] == ["0.1", "0.1", "0.2", "0.2"]
    assert rows[0]["status"] == "finished" and rows[0]["eval/cell_accuracy"]


def test_the_same_command_goes_on_and_prints_the_same_table(cli, swept):
    words, done = swept
    again = cli(*words)
    assert again.code == 0
    assert again.out.startswith("4 of 4 runs are done already\n")
    assert again.out.partition("\nrun ")[2] == done.out.partition("\nrun ")[2]
    changed = cli(*words[:3], "train.rounds=2", *words[4:])
    assert changed.code == 1
    assert "tiny,clip_low=0.1,seed=0: train.rounds differ" in changed.err


def test_json_is_the_table_and_progress_goes_elsewhere(cli, recipe):
    done = cli("sweep", recipe, "train.rounds=1", "--json", "-o", "mine")
    assert json.loads(done.out) == json.loads(Path("mine/table.json").read_text())
    assert done.err.startswith("[1/1] tiny: finished")


def test_a_dry_run_says_what_it_costs_and_writes_nothing(cli, recipe):
    done = cli("sweep", recipe, "task.blanks=[5,8],[6,8]", "--seeds", 3, "--dry-run")
    assert done.code == 0
    assert done.out.startswith("6 runs\nrun ")
    assert "tiny,blanks=5-8,seed=0  2 " in done.out
    assert done.out.splitlines()[-1].startswith("all ")
    assert not Path("runs").exists()
    rows = json.loads(cli("sweep", recipe, "--dry-run", "--json").out)
    assert rows[0]["flops"] == rows[0]["flops_per_round"] * 2


def test_all_bad_recipes_are_told_at_once_before_anything_runs(cli, recipe):
    done = cli("sweep", recipe, "not_there", "loss.clip_low=0.1,-1", "optimizer.lr=0")
    assert done.code == 2
    assert "tiny,clip_low=-1: override loss.clip_low" in done.err
    assert "override optimizer.lr" in done.err and "not_there" in done.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [(("a=1",), "name at least one recipe"), (("tiny.yaml", "--jobs", "0"), "--jobs must be"),
     (("tiny.yaml", "seed=1,2", "--seeds", "2"), "give one of them"),
     (("tiny.yaml", "a=1,1"), "the same value twice"), (("tiny.yaml", "tiny.yaml"), "twice")],
)  # fmt: skip
def test_words_that_make_no_sweep_are_refused(cli, recipe, words, said):
    done = cli("sweep", *words)
    assert done.code == 2
    assert said in done.err


def test_a_foreign_folder_is_refused(cli, recipe):
    done = cli("sweep", recipe, "--output", ".")
    assert done.code == 2
    assert "not the folder of a sweep" in done.err


def test_runs_that_fail_are_shown_and_end_with_1(cli, recipe, monkeypatch):
    def fail(*words, **options):
        raise OSError("disk full")

    monkeypatch.setattr("dllmzoo.training.run.train", fail)
    done = cli("sweep", recipe)
    assert done.code == 1
    assert "tiny  failed" in done.out
    assert "1 runs failed: tiny; the same command tries them again" in done.err


def test_the_default_folder_is_named_for_the_recipes(cli, recipe):
    Path("other.yaml").write_text(recipe.read_text())
    done = cli("sweep", recipe, "other.yaml", "train.rounds=1")
    assert done.out.endswith("in runs/sweep_tiny_and_1_more\n")
