"""Who can be compared, and how many rounds spend a budget."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dllmzoo.errors import RunError, UsageError
from dllmzoo.lab.compare import contest
from dllmzoo.lab.compare.contest import Contestant, contestants, find_recipes, main_steps
from dllmzoo.lab.runs import Outcome
from tests.unit.lab.small import write_recipe


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_recipe(tmp_path / "tiny.yaml")


def test_a_pattern_finds_files_and_leaves_supervised_recipes_out(tiny):
    Path("recipes").mkdir()
    write_recipe(Path("recipes/b_sudoku.yaml").resolve())
    write_recipe(Path("recipes/a_sudoku.yaml").resolve())
    write_recipe(Path("recipes/sft_sudoku.yaml").resolve(), stage="sft")
    found = find_recipes(["recipes/*_sudoku.yaml", tiny, "recipes/a_sudoku.yaml"])
    assert found == ("recipes/a_sudoku.yaml", "recipes/b_sudoku.yaml", tiny)


def test_a_pattern_keeps_to_the_base_that_most_recipes_start_from(tiny):
    Path("recipes").mkdir()
    small = {"name": "llada", "weights": "llada-tiny-sudoku"}
    for name in ("a", "b"):
        write_recipe(Path(f"recipes/{name}_sudoku.yaml").resolve(), model=small)
    write_recipe(Path("recipes/c_sudoku.yaml").resolve())  # trained from nothing
    said = []
    found = find_recipes(["recipes/*_sudoku.yaml"], said.append)
    assert found == ("recipes/a_sudoku.yaml", "recipes/b_sudoku.yaml")
    assert said == ["left out, not trained from llada-tiny-sudoku: recipes/c_sudoku.yaml"]


def test_a_pattern_without_files_finds_packaged_recipes(tiny):
    found = find_recipes(["recipes/egspo*_sudoku.yaml"])
    assert {"egspo_sudoku", "egspo_sa_sudoku"} <= set(found)
    assert not any("/" in name for name in found)
    assert find_recipes(["stable_drl_*"]) == find_recipes(["recipes/stable_drl_*.yaml"])


def test_a_pattern_that_finds_nothing_is_refused(tiny):
    with pytest.raises(UsageError, match="finds no recipe"):
        find_recipes(["nothing*"])
    with pytest.raises(UsageError, match="finds no recipe"):
        find_recipes(["sft_sudoku_*"])


def test_recipes_are_loaded_with_the_changes_of_all(tiny, tmp_path):
    write_recipe(tmp_path / "other.yaml")
    found = contestants([tiny, "other.yaml"], ["train.prompts=3"], tmp_path / "x")
    assert [each.label for each in found] == ["tiny", "other"]
    assert [each.samples for each in found] == [6, 6]  # 3 prompts, groups of 2
    assert main_steps(found[0].recipe) == 4
    assert found[0].arm("a", "seed=1").overrides == ("train.prompts=3", "seed=1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"evaluate": {"examples": 3, "steps": 4}}, "evaluate.examples differs"),
     ({"evaluate": {"examples": 4, "steps": 2}}, "evaluate.steps differs:\n  4: tiny\n  2: other"),
     ({"task": {"name": "sudoku", "rewards": {"cells": 1.0}, "test_blanks": [5, 5]}},
      "the held-out examples differs"),
     ({"evaluate": {"examples": 3, "steps": 2}},
      "(?s)evaluate.examples differs.*evaluate.steps differs.*the held-out examples differs"),
     ({"stage": "sft"}, "no reinforcement learning")],
)  # fmt: skip
def test_recipes_that_are_not_evaluated_alike_are_refused(tiny, tmp_path, changes, said):
    write_recipe(tmp_path / "other.yaml", **changes)
    with pytest.raises(UsageError, match=said):
        contestants([tiny, "other.yaml"], (), tmp_path / "x")


def test_rounds_spend_the_budget_to_the_nearest():
    each = Contestant("a", "a.yaml", (), None, planned=10.0, measured=10.4)
    assert not each.corrected and each.flops == 10.0  # 10 / 10.4 is 3.8 % off
    assert each.rounds(104) == 10 and each.rounds(106) == 11 and each.rounds(1) == 1


def test_a_forecast_more_than_5_percent_off_is_replaced_by_the_measurement():
    each = Contestant("a", "a.yaml", (), None, planned=10.0, measured=8.0)
    assert each.corrected and each.flops == 8.0 and each.rounds(80) == 10


def test_first_rounds_are_measured_and_a_correction_is_said(monkeypatch, tmp_path):
    each = Contestant("a", "a.yaml", (), SimpleNamespace())
    arms = []

    def run_arms(wanted, folder, jobs):
        arms.extend(wanted)
        rows = [{"round": 0}, {"round": 1, "flops": 6.0}, {"round": 2, "flops": 10.0}]
        return [Outcome(arm, "finished", "", rows) for arm in wanted]

    monkeypatch.setattr(contest, "run_arms", run_arms)
    monkeypatch.setattr("dllmzoo.training.plan.plan", lambda recipe: SimpleNamespace(flops=12.0))
    said = []
    (known,) = contest.probed([each], tmp_path, 1, said.append)
    assert known == replace(each, planned=12.0, measured=8.0)
    assert "train.rounds=2" in arms[0].overrides
    assert said == [
        "the forecast of a round's FLOPs is more than 5% off for a: the measured number sets "
        "their rounds"
    ]


def test_a_recipe_without_a_first_round_is_an_error(monkeypatch, tmp_path):
    each = Contestant("a", "a.yaml", (), SimpleNamespace())

    def run_arms(wanted, folder, jobs):
        return [Outcome(arm, "failed", "no memory", [{"round": 0}]) for arm in wanted]

    monkeypatch.setattr(contest, "run_arms", run_arms)
    with pytest.raises(RunError, match="a does not get through a round: no memory"):
        contest.probed([each], tmp_path, 1, print)
