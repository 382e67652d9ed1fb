"""A comparison from start to end, on runs of a second."""

import json

import pytest

from dllmzoo.errors import UsageError
from dllmzoo.lab import compare
from dllmzoo.lab.compare import Options
from tests.unit.lab.small import write_recipe


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two recipes compared on two seeds, with rates tuned first."""
    folder = tmp_path_factory.mktemp("study")
    one = write_recipe(folder / "one.yaml")
    other = write_recipe(folder / "other.yaml", selector={"name": "random", "steps": 1})
    options = Options(
        recipes=(one, other), budget_flops=4e7, seeds=2, tune=(0.5, 1, 2), output=folder / "out"
    )
    said = []
    return options, compare.run(options, said.append), said


def test_equal_compute_is_spent_on_every_seed(study):
    options, result, _ = study
    assert {method["label"] for method in result["methods"]} == {"one", "other"}
    for method in result["methods"]:
        assert len(method["runs"]) == 2
        a_round = method["flops"] / method["rounds"]
        assert abs(method["flops"] - options.budget_flops) <= a_round
        assert method["at_steps"].keys() == {"2", "8"}
        assert len(method["runs"][0]["curve"]) == method["rounds"] + 1  # fewer than 10 rounds


def test_everything_is_written(study):
    options, result, _ = study
    assert json.loads((options.output / "compare.json").read_text()) == result
    curves = json.loads((options.output / "curves.json").read_text())
    assert curves["methods"].keys() == {"one", "other"}
    rates = json.loads((options.output / "tune" / "rates.json").read_text())
    assert rates == result["tuning"] and len(rates["table"]) == 6
    for method in result["methods"]:
        assert method["lr"] == rates["rates"][method["label"]]


def test_the_same_call_runs_nothing_again(study, monkeypatch):
    options, result, _ = study

    def fail(*words, **options):
        raise AssertionError("ran again")

    monkeypatch.setattr("dllmzoo.training.run.train", fail)
    assert compare.run(options) == result


def test_rates_of_a_search_are_used_without_another(study):
    options, result, _ = study
    given = Options(
        recipes=options.recipes, budget_flops=4e7, seeds=2,
        rates=options.output / "tune" / "rates.json", output=options.output,
    )  # fmt: skip
    assert compare.run(given)["pairs"] == result["pairs"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"recipes": ()}, "name the recipes"), ({"budget_flops": 0.0}, "above 0"),
     ({"budget_flops": float("nan")}, "above 0"), ({"seeds": 0}, "between 1 and 1000"),
     ({"tune": (1.0, 2.0)}, "at least 3"),
     ({"tune": (0.5, 1, 2), "rates": "x.json"}, "use one of them")],
)  # fmt: skip
def test_options_that_make_no_comparison_are_refused(tmp_path, changes, said):
    options = {"recipes": ("a",), "budget_flops": 1e9, "output": tmp_path / "x"} | changes
    with pytest.raises(UsageError, match=said):
        compare.run(Options(**options))
    assert not (tmp_path / "x").exists()


def test_a_folder_of_another_kind_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="not the folder of a comparison"):
        compare.run(Options(recipes=("a",), budget_flops=1e9, output=tmp_path))


def test_a_budget_below_a_round_is_refused_before_methods_are_run(tmp_path):
    one = write_recipe(tmp_path / "one.yaml")
    options = Options(recipes=(one,), budget_flops=1e3, seeds=1, output=tmp_path / "out")
    with pytest.raises(UsageError, match="less than a round of one"):
        compare.run(options)
    assert not (tmp_path / "out" / "compare").exists()
