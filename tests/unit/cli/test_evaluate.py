"""`dllmzoo eval`: one line an example, settings beside it, a table."""

import json
import shutil
from pathlib import Path

import pytest

from dllmzoo.cli import _policies as policies


@pytest.fixture
def copied(tiny_run, tmp_path, monkeypatch):
    """A finished run that may be written to, `tiny`, in the current folder."""
    shutil.copytree(tiny_run, tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    return Path("tiny")


def test_a_run_is_evaluated_with_its_own_recipe(cli, copied):
    done = cli("eval", copied)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("tiny on 8 examples of sudoku\nmetric")
    assert "solved_rate" in done.out and "forwards per answer  " in done.out
    rows = [json.loads(x) for x in Path("tiny/evaluations/sudoku-1.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert set(rows[0]) == {
        "id", "sample", "prompt", "text", "solved", "metrics", "counts", "reward", "rewards",
        "example",
    }  # fmt: skip
    assert len({row["id"] for row in rows}) == 8
    settings = json.loads(Path("tiny/evaluations/sudoku-1.settings.json").read_text())
    assert settings["sampler"]["temperature"] == 0.0 and settings["sampler"]["steps"] == 4
    assert settings["forwards_per_answer"] == 4.0
    mean = sum(row["metrics"]["solved_rate"] for row in rows) / 8
    assert settings["metrics"]["solved_rate"] == pytest.approx(mean)


def test_an_evaluation_repeats_the_runs_last_one(cli, copied):
    rows = [json.loads(x) for x in (copied / "metrics.jsonl").read_text().splitlines()]
    again = json.loads(cli("eval", copied, "--json").out)["metrics"]
    assert again == {
        name.removeprefix("eval/"): value
        for name, value in rows[-1].items()
        if name.startswith("eval/")
    }


def test_no_earlier_evaluation_is_overwritten(cli, copied):
    cli("eval", copied)
    cli("eval", copied)
    names = sorted(p.name for p in (copied / "evaluations").glob("sudoku*.jsonl"))
    assert names == ["sudoku-1.jsonl", "sudoku-2.jsonl"]


def test_a_named_file_is_overwritten_only_if_asked(cli, copied):
    assert cli("eval", copied, "-o", "x.jsonl").code == 0
    done = cli("eval", copied, "-o", "x.jsonl")
    assert done.code == 2 and "--overwrite" in done.err
    assert cli("eval", copied, "-o", "x.jsonl", "--overwrite").code == 0
    assert Path("x.settings.json").is_file()


def test_options_change_what_is_asked_and_say_what_differs(cli, copied):
    done = cli("eval", copied, "--steps", 2, "--examples", 3, "--batch", 2, "--json")
    settings = json.loads(done.out)
    assert settings["examples"] == 3 and settings["forwards_per_answer"] == 2.0
    done = cli("eval", copied, "--steps", 2)
    assert "note: sampler.steps is 2, but the run was evaluated with 4" in done.err


def test_a_temperature_is_not_passed_over_in_silence(cli, copied):
    assert "eval is greedy" in cli("eval", copied, "sampler.temperature=0.7").err


def test_the_folder_of_the_weights_knows_its_run(cli, copied):
    assert cli("eval", copied / "final").code == 0
    assert (copied / "evaluations" / "sudoku-1.jsonl").is_file()


def test_a_model_alone_needs_a_recipe_or_a_task(cli, copied, recipe):
    shutil.copytree("tiny/final", "model")
    done = cli("eval", "model")
    assert done.code == 2
    assert "model is no run" in done.err and "--task" in done.err
    assert cli("eval", "model", recipe).code == 0
    done = cli("eval", "model", "--task", "sudoku", "sampler.answer_length=16", "--examples", 2)
    assert done.code == 0, done.err
    assert sorted(p.name for p in Path("evaluations").glob("*.jsonl")) == [
        "sudoku-1.jsonl",
        "sudoku-2.jsonl",
    ]


def test_two_recipes_are_one_too_many(cli, copied):
    done = cli("eval", copied, "a", "b")
    assert done.code == 2 and "one recipe at a time, not a and b" in done.err


def test_a_bad_change_is_a_problem_of_the_recipe(cli, copied):
    done = cli("eval", copied, "sampler.stepz=2")
    assert done.code == 2 and "did you mean 'steps'?" in done.err


def test_steps_that_do_not_fit_are_refused(cli, copied):
    done = cli("eval", copied, "--steps", 2, "sampler.block_length=4")
    assert done.code == 2
    assert "steps" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("word", "message"),
    [("nothing", "'nothing' is neither a folder, nor a card, nor a hub id"),
     ("llada-8b-instrukt", "Did you mean 'llada-8b-instruct'"),
     ("tiny/finale", "there is no folder tiny/finale. Did you mean 'final'?"),
     ("./nowhere", "there is no folder ./nowhere"),
     ("tiny/manifest.json", "is a file; give a run folder")],
)  # fmt: skip
def test_what_is_nowhere_is_refused_before_anything_is_fetched(cli, copied, word, message):
    for words in (["eval", word], ["generate", word, "1="], ["export", word, "out"]):
        done = cli(*words)
        assert done.code == 2
        assert message in done.err


def test_a_run_without_final_weights_says_how_to_finish_it(cli, copied):
    shutil.rmtree(copied / "final")
    done = cli("eval", copied)
    assert done.code == 2 and "--resume" in done.err


def test_the_shipped_recipe_of_a_card_is_found():
    assert policies.recipe_of_weights("llada-8b-instruct") == "llada_8b/egspo_sa_sudoku"
    assert policies.recipe_of_weights("nothing") is None


def test_blanks_are_filled_in_evaluation(cli, tiny_run, tmp_path):
    words = ("sampler=infill", "sampler.answer_length=16", "-o", tmp_path / "filled.jsonl")
    done = cli("eval", tiny_run, *words, "--examples", 4, "--steps", 4, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["forwards_per_answer"] == 4
    assert found["sampler"]["name"] == "infill" and found["sampler"]["temperature"] == 0


def test_stored_answers_cannot_be_evaluated(cli, tiny_run):
    done = cli("eval", tiny_run, "sampler=stored", "sampler.answer_length=16")
    assert done.code == 2 and "evaluate.sampler=" in done.err
