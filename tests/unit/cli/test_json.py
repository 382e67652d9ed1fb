"""`--json`: one JSON value on standard output from every command that a script may call."""

import json
import re
from pathlib import Path

import pytest

from tests.fake_hub import Hub, serve, unplug
from tests.unit.cli.commands import commands
from tests.unit.report import made

WITHOUT = {
    "watch": "serves until Ctrl-C",
    "schema": "prints JSON anyway",
}
"""Commands without `--json`, and why."""
CASES = {
    "train": ("train", "tiny.yaml", "--smoke"),
    "plan": ("plan", "tiny.yaml"),
    "eval": ("eval", "RUN", "--examples", 2, "-o", "answers.jsonl"),
    "generate": ("generate", "RUN"),
    "report": ("report", "made", "--figures", "figures"),
    "export": ("export", "RUN", "exported"),
    "sweep": ("sweep", "tiny.yaml", "--dry-run"),
    "list": ("list",),
    "show": ("show", "loss", "stable_drl"),
    "check": ("check", "tiny.yaml", "egspo_sudoku"),
    "new": ("new", "loss", "fresh_loss", "--folder", "."),
    "pull": ("pull", "some/model", "--dry-run"),
    "bench": ("bench", "--list"),
    "env": ("env",),
    "lab estimators": ("lab", "estimators", "--estimators", "mean_field", "--views", "1",
                       "--measures", "values", "--draws", 64, "--slots", 2),
    "lab stability": ("lab", "stability", "--quick", "--seeds", 1, "--dry-run"),
    "lab compare": ("lab", "compare", "tiny.yaml", "--budget-flops", "1e8", "--dry-run"),
}  # fmt: skip
"""What each command is asked here; RUN is a finished run."""
SHOWN = [
    ("show", "recipe", "egspo_sudoku"), ("show", "method", "egspo-sa"), ("show", "run", "made"),
    ("show", "result", "stability-quick"), ("list", "recipes"), ("train", "tiny.yaml", "--dry-run"),
    ("train", "tiny.yaml", "--print-config"), ("generate", "RUN", "--trace"),
]  # fmt: skip


@pytest.fixture
def asked(cli, recipe, tiny_run, tmp_path, monkeypatch):
    """Runs a case with `--json` beside a recipe, a run written by hand, and a hub."""
    made.run(tmp_path / "made", 3, keys=["reward"], rollouts={})
    files = {"config.json": b"{}", "model.safetensors": b"x", "README.md": b"read me"}
    with serve(Hub({"models/some/model": files})) as hub:
        unplug(monkeypatch, tmp_path, hub.address)
        monkeypatch.chdir(tmp_path)

        def call(*words):
            return cli(*(tiny_run if word == "RUN" else word for word in words), "--json")

        yield call


def test_every_command_has_json_or_a_reason_to_have_none():
    having = {
        name
        for name, command in commands().items()
        if any("--json" in param.opts for param in command.params)
    }
    assert set(commands()) - having == set(WITHOUT)
    assert having - set(CASES) == set(), "a new command: add what it is asked to CASES"


@pytest.mark.parametrize("words", [*CASES.values(), *SHOWN], ids=lambda w: " ".join(map(str, w)))
def test_standard_output_is_one_json_value(asked, words):
    done = asked(*words)
    assert done.code == 0, done.err
    value = json.loads(done.out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert value, "an empty answer shows nothing"


@pytest.mark.parametrize("words", [
    ("list", "nothing"), ("show", "nothing"), ("show", "run", "nowhere"), ("eval", "nothing"),
    ("generate", "nothing"), ("train", "nothing"), ("plan", "nothing"), ("report", "nothing"),
    ("sweep", "nothing"), ("new", "loss", "No"), ("pull", "nothing"), ("export", "nothing", "x"),
])  # fmt: skip
def test_an_error_is_a_message_and_no_json(asked, words):
    done = asked(*words)
    assert (done.code, done.out) == (2, "") and done.err


def test_problems_of_a_recipe_are_a_result_too(asked):
    Path("bad.yaml").write_text(Path("tiny.yaml").read_text().replace("entropy", "entorpy"))
    done = asked("check", "bad.yaml")
    assert done.code == 2 and json.loads(done.out)["bad.yaml"]


def test_training_says_its_progress_beside_the_json(asked):
    done = asked("train", "tiny.yaml", "--smoke")
    assert done.out.count("\n") == 1, "one line"
    result = json.loads(done.out)
    assert result["folder"] == "runs/tiny" and result["seconds"] > 0
    assert [row["label"] for row in result["rows"]] == ["base", "trained"]
    assert "round 0/1  eval solved" in done.err and "round 1/1  reward" in done.err
    quiet = asked("train", "tiny.yaml", "--smoke", "--overwrite", "--quiet")
    assert json.loads(quiet.out)["folder"] == "runs/tiny" and "round 1" not in quiet.err


def test_what_was_written_is_listed(asked):
    figures = json.loads(asked("report", "made", "--figures", "figures").out)["figures"]
    assert figures and all(Path(file).is_file() for file in figures)
    assert {Path(file).suffix for file in figures} == {".svg", ".png"}
    files = json.loads(asked("export", "RUN", "exported").out)["files"]
    assert {each["file"]: each["bytes"] for each in files} == {
        str(path): path.stat().st_size for path in Path("exported").iterdir()
    }
    fresh = json.loads(asked("new", "loss", "fresh_loss", "--folder", ".").out)
    assert (fresh["kind"], fresh["name"], fresh["built_in"]) == ("loss", "fresh_loss", False)
    assert fresh["files"] == ["fresh_loss.py", "test_fresh_loss.py"]
    assert all(Path(file).is_file() for file in fresh["files"])


def test_the_page_of_the_command_line_says_what_each_command_prints():
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(?:dllmzoo )?([a-z]+(?: [a-z]+)?)[^|]*` \|", page, re.MULTILINE))
    assert set(CASES) | set(WITHOUT) <= told
