"""Results of the labs as parts of a report."""

import json

import pytest

from dllmzoo.catalogue import cards
from dllmzoo.catalogue import path as card_path
from dllmzoo.cli._lab_results import files, section
from dllmzoo.errors import UsageError
from dllmzoo.lab import estimators
from dllmzoo.lab.compare.options import Options
from dllmzoo.lab.compare.result import compared, mean_curves
from dllmzoo.lab.stability.cells import over_seeds
from dllmzoo.lab.stability.conditions import CONDITIONS
from dllmzoo.lab.stability.verdict import judge
from tests.unit.lab.compare.test_result import ALL, contestant
from tests.unit.lab.stability.made import entries


def shown(tmp_path, name, content):
    file = tmp_path / name
    file.write_text(json.dumps(content))
    return section(file)


@pytest.fixture
def comparison():
    found = [contestant(label) for label in "bca"]
    options = Options(recipes=("a", "b", "c"), budget_flops=20.0, seeds=2)
    return compared(found, dict.fromkeys("abc", 1e-4), ALL, options) | {"tuning": None}


def test_a_comparison_shows_scores_pairs_and_every_run(tmp_path, comparison):
    part = shown(tmp_path, "compare.json", comparison)
    assert part["tables"][0]["rows"][0][0] == "a" and part["notes"]
    lines = part["charts"][0]["lines"]
    assert [line["label"] for line in lines][:2] == ["a, seed 0", "a, seed 1"]
    assert lines[0]["y"] == [0.1, 0.3, 0.5] and lines[0]["x"] == [0.0, 10.0, 20.0]


def test_curves_of_a_comparison_are_drawn_against_each_cost(tmp_path, comparison):
    part = shown(tmp_path, "curves.json", mean_curves(comparison))
    assert [chart["xTitle"] for chart in part["charts"]] == [
        "flops",
        "samples",
        "updates",
        "seconds",
    ]
    line = part["charts"][0]["lines"][0]
    assert line["label"] == "a" and line["low"][-1] < line["y"][-1] < line["high"][-1]


def test_rates_that_were_tried_are_a_table(tmp_path):
    tried = {"recipe": "a", "factor": 1.0, "lr": 1e-4, "status": "finished"}
    tried |= {"first": 0.1, "last": 0.2}
    result = {"format": 1, "metric": "solved_rate", "seed": 1000, "budget_flops": 1.0,
              "rates": {"a": 1e-4}, "edge": [], "table": [tried]}  # fmt: skip
    part = shown(tmp_path, "rates.json", result)
    assert part["tables"][0]["rows"][0][0] == "a"


def test_a_stability_study_shows_collapses_and_curves(tmp_path):
    condition = next(iter(CONDITIONS))
    runs = entries(condition, "grpo", [[0.5, 0.6, 0.7], [0.5, 0.4, 0.45]])
    cells = over_seeds(runs)
    result = {"cells": cells, "runs": runs, "toys": None, "folder": "x"}
    result["verdicts"] = judge(runs, cells)
    part = shown(tmp_path, "stability.json", result)
    assert part["title"].startswith("Stability") and part["tables"][0]["rows"]
    solved, ratios, _ = part["charts"]
    assert solved["lines"][0] == {"label": "grpo, seed 0", "x": [0, 4, 8], "y": [0.5, 0.6, 0.7]}
    assert ratios["log"] and ratios["lines"][0]["y"] == [100.0, 200.0]


def test_estimators_are_shown_by_forwards(tmp_path):
    options = estimators.Options(
        slots=2, draws=512, views=(1, 2), estimators=("elbo", "denoising_steps@all"),
        measures=("values", "ratios"),
    )  # fmt: skip
    part = shown(tmp_path, "estimators.json", estimators.plain(estimators.run(options)))
    chart = next(c for c in part["charts"] if c["title"].startswith("log-likelihood"))
    elbo = next(line for line in chart["lines"] if line["label"] == "elbo")
    assert elbo["x"] == [1.0, 2.0] and chart["log"]
    assert part["tables"][0]["head"][0] == "estimator" and len(part["tables"][0]["rows"]) >= 3


@pytest.mark.parametrize("name", [card.name for card in cards("results")])
def test_every_card_of_the_catalogue_can_be_shown(name):
    part = section(card_path("results", name))
    assert part["tables"][0]["rows"] and name == part["tables"][0]["title"]


def test_a_folder_of_a_lab_stands_for_its_results(tmp_path):
    (tmp_path / "compare.json").touch()
    (tmp_path / "sweep.json").touch()
    assert files(tmp_path) == [tmp_path / "compare.json"]
    assert files(tmp_path / "none") == []


def test_what_is_no_result_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is no result that the report knows"):
        shown(tmp_path, "x.json", {"a": 1})
    with pytest.raises(UsageError, match="lacks something"):
        shown(tmp_path, "x.json", {"methods": [{}], "pairs": [], "budget_flops": 1})
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        section(tmp_path / "bad.json")
