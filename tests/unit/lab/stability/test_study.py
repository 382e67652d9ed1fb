import json

import pytest

from dllmzoo.errors import UsageError
from dllmzoo.lab.card import result_card
from dllmzoo.lab.runs import Outcome
from dllmzoo.lab.stability import Options, drawing, named_tables, plot, run, tables, verdicts
from dllmzoo.lab.stability.report import number

SMALL = (
    "train.rounds=2", "train.prompts=2", "train.group_size=2", "evaluate.every=1",
    "evaluate.examples=4", "evaluate.steps=2", "sampler.steps=2", "train.passes=2",
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.2054, "0.205"),
        (37.0, "37"),
        (1.42e19, "1.4e+19"),
        (123.4, "123"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two arms, one seed, two rounds each, and the lines said on the way."""
    lines = []
    options = Options(
        seeds=1, changes=SMALL, jobs=1, output=tmp_path_factory.mktemp("lab") / "study"
    )
    return options, run(options, lines.append), lines


def test_a_study_of_two_arms_runs_to_its_tables(study):
    options, result, _ = study
    assert [each["name"] for each in result["runs"]] == ["base.grpo.0", "base.stable_drl.0"]
    stable = result["runs"][1]
    assert stable["status"] == "finished"
    assert stable["figures"]["updates"] == 4
    assert stable["figures"]["drift"] > 0
    assert 0 < stable["figures"]["ess"] <= 1
    assert stable["figures"]["clipped"] <= 6.0 + 1e-6
    assert json.loads((options.output / "stability.json").read_text()) == result
    for headers, lines, _ in tables(result):
        assert lines
        assert all(len(line) == len(headers) for line in lines)


def test_a_study_goes_on_where_it_stopped(study):
    options, result, _ = study
    said = []
    again = run(options, said.append)
    assert again["runs"] == result["runs"]
    assert said == ["2 of 2 runs are done already"]


def test_a_changed_loss_is_not_worth_a_note(study):
    assert not [line for line in study[2] if line.startswith("note: loss")]


def test_a_study_has_what_a_card_is_made_of(study, tmp_path):
    result = study[1]
    headers, lines, title = named_tables(result)["collapses"]
    card = result_card(
        "small-study", title, "dllmzoo lab stability", headers, lines, recipes=result["recipes"],
        seeds=result["seeds"], verdicts=verdicts(result),
    )  # fmt: skip
    assert card.recipes == ("stable_drl_sudoku",)
    assert card.seeds == (0,)
    assert card.verdicts[0].startswith("base: the claim that GRPO collapses")
    assert result["failed"] == {}


def test_a_run_that_fails_is_named_and_counts_nowhere(study, tmp_path, monkeypatch):
    def failing(arms, folder, jobs, *, say):
        folder.mkdir()
        return [Outcome(arm, "failed", "out of luck", []) for arm in arms]

    monkeypatch.setattr("dllmzoo.lab.stability.run_arms", failing)
    result = run(Options(seeds=1, output=tmp_path / "failed"))
    assert result["failed"] == {
        "base.grpo.0": "out of luck", "base.stable_drl.0": "out of luck",
    }  # fmt: skip
    assert [cell["seeds"] for cell in result["cells"]] == [[], []]
    assert tables(result)


def test_one_condition_gets_all_its_curves(study, tmp_path):
    pytest.importorskip("matplotlib")
    assert plot(study[1], tmp_path / "one.svg") == [tmp_path / "one.svg"]
    text = (tmp_path / "one.svg").read_text()
    for panel in (*drawing.SHORT, *drawing.LONG):
        assert panel.title in text
    assert "StableDRL" in text
    assert "base: masks of their own" in text


def test_of_several_conditions_each_gets_a_figure_beside_the_main_one(study, tmp_path, monkeypatch):
    drawn = {}

    def draw(runs, names, rows, stem):
        drawn[stem.name] = (list(names), len(rows))
        return stem

    monkeypatch.setattr(drawing, "_draw", draw)
    other = [{**each, "condition": "token"} for each in study[1]["runs"]]
    files = plot({"runs": [*study[1]["runs"], *other]}, tmp_path / "curves")
    assert [file.name for file in files] == ["curves", "curves_base", "curves_token"]
    assert drawn["curves"] == (["base", "token"], 1)
    assert drawn["curves_token"] == (["token"], 2)


def test_nothing_cannot_be_plotted(tmp_path):
    with pytest.raises(UsageError, match="no runs to plot"):
        plot({"runs": []}, tmp_path / "x.svg")
