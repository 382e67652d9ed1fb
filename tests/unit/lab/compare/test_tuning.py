"""Learning rates: tried on a seed of their own, the best kept, read back."""

import json
from types import SimpleNamespace

import pytest

from dllmzoo.errors import RunError, UsageError
from dllmzoo.lab.compare import tuning
from dllmzoo.lab.compare.contest import Contestant
from dllmzoo.lab.runs import Outcome
from tests.unit.lab.small import rows

RECIPE = SimpleNamespace(
    optimizer=SimpleNamespace(lr=1e-5), task=SimpleNamespace(primary="solved_rate")
)
TWO = [Contestant(label, f"{label}.yaml", (), RECIPE, 10.0, 10.0) for label in ("a", "b")]


def line(recipe, lr, last, factor=1.0):
    return {"recipe": recipe, "lr": lr, "last": last, "factor": factor}


def tried(monkeypatch, tmp_path, scores):
    """The table of a search in which an arm ends with `scores[name]`."""
    arms = []

    def run_arms(wanted, folder, jobs, say):
        arms.extend(wanted)
        return [
            Outcome(arm, "failed", "no", rows(0.1))
            if scores[arm.name] is None
            else Outcome(arm, "finished", "", rows(0.1, scores[arm.name]))
            for arm in wanted
        ]

    monkeypatch.setattr(tuning, "run_arms", run_arms)
    said = []
    return tuning.tuned(TWO, (2, 0.5, 1), 100.0, tmp_path, 1, said.append), arms, said


SCORES = {
    "a,factor=0.5": 0.2, "a,factor=1": 0.5, "a,factor=2": 0.1,
    "b,factor=0.5": None, "b,factor=1": 0.3, "b,factor=2": 0.4,
}  # fmt: skip


def test_every_method_is_run_at_every_rate_and_the_best_is_kept(monkeypatch, tmp_path):
    table, arms, said = tried(monkeypatch, tmp_path, SCORES)
    assert [arm.name for arm in arms] == list(SCORES)
    assert table["rates"] == {"a": 1e-5, "b": 2e-5}
    assert table["edge"] == ["b"] and "b: its best rate is the outermost tried" in said[0]
    assert [row["last"] for row in table["table"]] == [0.2, 0.5, 0.1, None, 0.3, 0.4]
    assert json.loads((tmp_path / "rates.json").read_text()) == table
    assert {"seed=1000", "train.rounds=10", "evaluate.every=2"} <= set(arms[0].overrides)
    assert "optimizer.lr=5e-06" in arms[0].overrides


def test_rates_are_read_as_numbers_by_a_recipe():
    from dllmzoo.recipe import load
    from tests.runs import recipe

    for rate in (5e-06, 1.234e-07, 0.1):
        assert load(recipe("x"), [f"optimizer.lr={rate!r}"]).optimizer.lr == rate


def test_a_method_that_always_fails_is_an_error(monkeypatch, tmp_path):
    with pytest.raises(RunError, match="b failed at every learning rate"):
        tried(monkeypatch, tmp_path, {**SCORES, "b,factor=1": None, "b,factor=2": None})


def test_the_lowest_of_equal_rates_is_taken():
    table = [line("a", 1e-4, 0.5), line("a", 2e-4, 0.5), line("a", 5e-5, 0.1)]
    assert tuning.best_rates(table) == {"a": 1e-4}
    assert tuning.at_the_edge(table, {"a": 1e-4}) == []


@pytest.mark.parametrize("factors", [(1,), (1, 2), (1, 2, 2), (0, 1, 2), (-1, 1, 2)])
def test_fewer_than_three_rates_are_no_search(factors):
    with pytest.raises(UsageError, match="at least 3 different factors above 0"):
        tuning.refuse_factors(factors)


def test_rates_are_read_from_a_search_or_a_plain_mapping(tmp_path):
    file = tmp_path / "rates.json"
    file.write_text('{"format": 1, "rates": {"a": 1e-4, "b": 2, "c": 3}}')
    assert tuning.read_rates(file, TWO) == {"a": 1e-4, "b": 2.0}
    file.write_text('{"a": 1e-4, "b": 2e-4}')
    assert tuning.read_rates(file, TWO) == {"a": 1e-4, "b": 2e-4}


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"a": 1}', "no learning rate above 0 for b; add it"), ('{"a": 1, "b": 0}', "for b"),
     ('{"a": 1, "b": "x"}', "for b"), ("[1]", "for a, b"), ("{", "is no JSON"),
     ('{"rates": 3}', "for a, b"), ('{"a": 1, "b": true}', "for b")],
)  # fmt: skip
def test_rates_that_are_not_there_are_named(tmp_path, text, said):
    (tmp_path / "rates.json").write_text(text)
    with pytest.raises(UsageError, match=said):
        tuning.read_rates(tmp_path / "rates.json", TWO)


def test_a_file_of_rates_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        tuning.read_rates(tmp_path / "rates.json", TWO)


def test_runs_are_evaluated_about_so_often():
    assert "evaluate.every=3" in tuning.length(35, 10)
    assert "evaluate.every=1" in tuning.length(4, 10)
