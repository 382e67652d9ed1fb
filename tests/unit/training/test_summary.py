"""The final table and the manifest of a run."""

import json

import pytest

from dllmzoo.recipe import dump, load, resolved
from dllmzoo.training import manifest as about
from dllmzoo.training import summary as module
from dllmzoo.training.folder import RunFolder
from dllmzoo.training.summary import summary
from tests.runs import recipe
from tests.unit.training.small import learner


@pytest.fixture
def folder(tmp_path):
    """A run whose outcomes are known, of a recipe without a card."""
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.recipe.write_text(dump(resolved(load(recipe(run.path)))))
    known = {
        "start": {"4": [1, 0, 0, 0], "2": [0, 0, 0, 0]},
        "end": {"4": [1, 1, 1, 0], "2": [1, 0, 0, 0]},
    }
    (run.path / "evaluations.json").write_text(json.dumps(known))
    return run


def test_the_table_compares_on_the_same_examples(folder):
    rows = summary(folder.path)
    assert [(row.label, row.steps, row.rate) for row in rows] == [
        ("base", "4", 0.25), ("trained", "4", 0.75), ("base", "2", 0.0), ("trained", "2", 0.25),
    ]  # fmt: skip
    base, trained = rows[:2]
    assert base.gain is None and trained.gain == 0.5
    assert trained.gain_low < 0.5 < trained.gain_high
    assert trained.low < 0.75 < trained.high
    assert {row.examples for row in rows} == {4}, "as many as there were"


def test_where_no_example_changed_there_is_no_interval(folder):
    known = {"start": {"4": [1, 0, 0, 0]}, "end": {"4": [1, 0, 0, 0]}}
    (folder.path / "evaluations.json").write_text(json.dumps(known))
    _, trained = summary(folder.path)
    assert (trained.gain, trained.gain_low, trained.gain_high) == (0.0, None, None)


def test_the_state_before_the_careless_stage_is_evaluated_once(folder, monkeypatch):
    calls = []

    def before(run, steps):
        calls.append(steps)
        return {"4": [1, 1, 0, 0]}

    monkeypatch.setattr(module, "_before", before)
    for _ in range(2):
        rows = summary(folder.path)
        assert [row.label for row in rows[:3]] == [
            "base before its careless stage", "base", "trained",
        ]  # fmt: skip
        assert rows[0].gain == 0.25
    assert calls == [["4", "2"]]


def test_a_base_without_a_card_has_no_state_before(folder):
    assert module._before(folder, ["4"]) is None


def test_the_manifest_says_what_is_needed_to_repeat_a_run(tmp_path):
    found = about.manifest(load(recipe(tmp_path)), learner(), "dllmzoo train x")
    assert (found["seed"], found["stage"], found["command"]) == (3, "rl", "dllmzoo train x")
    assert found["versions"]["torch"] and found["versions"]["dllmzoo"]
    assert found["machine"]["processes"] == 1 and found["finished"] is None
    assert found["parameters"]["trained"] == found["parameters"]["all"] > 0
    json.dumps(found)


def test_a_library_that_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr(about, "PACKAGES", ("torch", "no-such-package-of-anybody"))
    assert about.versions()["no-such-package-of-anybody"] is None


def test_the_commit_is_that_of_a_checkout_or_none(monkeypatch, tmp_path):
    def fails(*_):
        raise OSError("no git")

    monkeypatch.setattr(about, "_git", fails)
    assert about.commit() is None
    monkeypatch.setattr(
        about, "_git", lambda folder, *words: {"rev-parse": "abc", "status": ""}[words[0]]
    )
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(about.dllmzoo, "__file__", str(tmp_path / "dllmzoo" / "__init__.py"))
    assert about.commit() == "abc"
    monkeypatch.setattr(
        about, "_git", lambda folder, *words: {"rev-parse": "abc", "status": " M x"}[words[0]]
    )
    assert about.commit() == "abc-dirty"
