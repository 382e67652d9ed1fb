"""`dllmzoo lab`: what its commands are asked, print, write and refuse."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from dllmzoo import catalogue
from dllmzoo.lab import compare, estimators, stability
from dllmzoo.recipe import packaged


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout to keep cards in, in place of ours."""
    monkeypatch.setattr(packaged, "PACKAGE", tmp_path / "checkout" / "dllmzoo")
    for name in ("docs", "registry", "recipes"):
        (tmp_path / "checkout" / name).mkdir(parents=True)
    return tmp_path / "checkout"


@pytest.mark.parametrize("command", ["estimators", "stability", "compare"])
def test_every_laboratory_explains_itself(cli, command):
    done = cli("lab", command, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"dllmzoo lab {command}" in done.out


def test_a_misspelt_laboratory_is_answered_with_the_nearest(cli):
    done = cli("lab", "compar")
    assert done.code == 2
    assert "there is no command 'compar'. Did you mean 'compare'?" in done.err


def test_methods_are_compared_and_kept(cli, recipe, checkout):
    other = Path("other.yaml")
    other.write_text(recipe.read_text().replace("entropy", "random"))
    words = ("lab", "compare", "--recipes", "tiny.yaml,oth*.yaml", "--budget-flops", "1e7",
             "--seeds", 2, "evaluate.examples=2", "--output", "out")  # fmt: skip
    done = cli(*words, "--card", "a-study")
    assert done.code == 0, done.err
    assert "solved_rate on 2 held-out examples with 4 denoising steps" in done.out
    assert "not told apart" in done.out and "has the highest mean solved_rate" in done.out
    assert "wrote compare.json and curves.json in out" in done.out
    assert {path.name for path in Path("out").iterdir()} >= {
        "compare.json", "curves.json", "curves.svg", "curves.png",
    }  # fmt: skip
    cards = {card.name: card for card in catalogue.cards("results")}
    assert set(cards) == {"a-study", "a-study-steps", "a-study-reach", "a-study-pairs"}
    card = cards["a-study"]
    assert card.figure == "a-study.svg" and card.verdicts and card.seeds == (0, 1)
    assert card.command.startswith("dllmzoo lab compare --recipes 'tiny.yaml,oth*.yaml' ")
    assert (checkout / "docs" / "assets" / "results" / "a-study.svg").exists()
    again = cli(*words, "--json")
    assert json.loads(again.out)["methods"] and "4 of 4 runs are done already" in again.err


def test_a_dry_run_of_a_comparison_gives_rounds_and_cost_and_writes_nothing(cli, recipe):
    words = ("lab", "compare", recipe, "--budget-flops", "1e8", "--seeds", 2, "--dry-run")
    done = cli(*words)
    assert done.code == 0, done.err
    assert done.out.startswith("2 runs\nrun ") and "tiny,seed=1  " in done.out
    assert not Path("runs").exists()
    first, second = json.loads(cli(*words, "--json").out)
    assert first["rounds"] == round(1e8 / first["flops_per_round"])
    assert second["arm"] == "tiny,seed=1"


def test_a_dry_run_of_stability_lists_its_runs(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("lab", "stability", "--quick", "--seeds", 1, "--dry-run")
    assert done.code == 0, done.err
    assert done.out.startswith("2 runs\n")
    assert not Path("runs").exists()


def test_the_options_of_a_comparison_are_all_passed_on(cli, monkeypatch):
    asked = []

    def run(options, say):
        asked.append(options)
        raise RuntimeError("enough")

    monkeypatch.setattr(compare, "run", run)
    cli("lab", "compare", "a", "train.prompts=2", "--recipes", "b,c", "--budget-flops", "1e9",
        "--seeds", 5, "--tune", "0.5,1,2", "--tune-budget-flops", "1e8", "--steps", "4,16",
        "-j", 2, "-o", "out")  # fmt: skip
    assert asked == [compare.Options(
        recipes=("a", "b", "c"), budget_flops=1e9, overrides=("train.prompts=2",), seeds=5,
        tune=(0.5, 1.0, 2.0), tune_budget_flops=1e8, steps=(4, 16), jobs=2, output=Path("out"),
    )]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "--budget-flops"), (("--budget-flops", "1e9"), "name the recipes to compare"),
     (("--budget-flops", "1e9", "a", "--tune", "1,x"), "--tune takes numbers"),
     (("--budget-flops", "1e9", "a", "--steps", "1.5"), "--steps takes whole numbers"),
     (("--budget-flops", "1e9", "a", "--card", "No Name"), "kebab-case"),
     (("--budget-flops", "1e9", "not_there"), "not_there"),
     (("--budget-flops", "1e9", "egspo_sudoku", "--steps", "0"), "evaluate.also_steps"),
     (("--budget-flops", "1e9", "egspo_sudoku", "train.rounds=3"),
      "train.rounds cannot be changed here: train.rounds is set by --budget-flops"),
     (("--budget-flops", "1e9", "egspo_sudoku", "seed=3"), "seed is set by --seeds"),
     (("--budget-flops", "1e9", "a", "--tune-budget-flops", "1e8"), "--tune, which is not given")],
)  # fmt: skip
def test_words_that_make_no_comparison_are_refused(cli, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    done = cli("lab", "compare", *words)
    assert done.code == 2
    assert said in done.err
    assert not any(tmp_path.iterdir()), "nothing was run or written"


def test_a_method_that_failed_is_named_after_the_table(cli, monkeypatch, tmp_path):
    table = (("method",), [("a",)], "scores")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compare, "run", lambda options, say: {"failed": {"b": "no memory"}})
    monkeypatch.setattr(compare, "named_tables", lambda result: {"scores": table})
    monkeypatch.setattr(compare, "verdicts", lambda result: ("a is best",))
    monkeypatch.setattr(compare, "plot", lambda result, path: [])
    done = cli("lab", "compare", "a", "--budget-flops", "1")
    assert (done.code, done.err) == (1, "b failed: no memory\n")
    assert "a is best" in done.out


def test_stability_is_asked_and_kept(cli, checkout, monkeypatch):
    asked = []
    result = {
        "failed": {}, "recipes": ["r"], "seeds": [0, 1], "minutes": 2.0, "verdicts": ["it falls"]
    }  # fmt: skip

    def run(options, say):
        asked.append(options)
        say("a run")
        return result

    def plot(result, path):
        (checkout / "x.svg").write_text("<svg/>")
        return [checkout / "x.svg"]

    monkeypatch.chdir(checkout)
    monkeypatch.setattr(stability, "run", run)
    tables = {"collapses": (("loss",), [("grpo",)], "who collapsed")}
    monkeypatch.setattr(stability, "named_tables", lambda result: tables)
    monkeypatch.setattr(stability, "plot", plot)
    done = cli("lab", "stability", "train.prompts=2", "--quick", "--arms", "grpo", "--seeds", 2,
               "--conditions", "base", "-j", 1, "-o", "out", "--card", "loop")  # fmt: skip
    assert done.code == 0, done.err
    assert asked == [stability.Options(
        grid="quick", conditions=("base",), arms=("grpo",), seeds=2, changes=("train.prompts=2",),
        jobs=1, output=Path("out"),
    )]  # fmt: skip
    assert "who collapsed" in done.out and "it falls" in done.out
    (card,) = catalogue.cards("results")
    assert (card.name, card.rows, card.figure) == ("loop", (("grpo",),), "loop.svg")
    assert json.loads(cli("lab", "stability", "--json").out) == result
    assert asked[1].grid == "full"


def test_estimators_are_asked_and_kept(cli, checkout, monkeypatch):
    asked = []
    result = SimpleNamespace(title="a table", notes=("a note",), seconds=60.0)

    def run(options, say):
        asked.append(options)
        return result

    def plot(result, path):
        path.mkdir(parents=True, exist_ok=True)
        for name in ("estimators", "selection"):
            (path / f"{name}.svg").write_text(name)
        return [path / "estimators.svg", path / "selection.svg"]

    tables = {
        "values": (("estimator",), [("elbo",)], "Log-likelihood"),
        "selection": (("selector",), [("entropy",)], "Step selection"),
        "skipped": (("left out",), [("x",)], "Left out"),
    }
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(estimators, "run", run)
    monkeypatch.setattr(estimators, "named_tables", lambda result: tables, raising=False)
    monkeypatch.setattr(estimators, "plain", lambda result: {"format": 1}, raising=False)
    monkeypatch.setattr(estimators, "plot", plot, raising=False)
    done = cli("lab", "estimators", "--estimators", "elbo,mean_field", "--views", "1,2",
               "--slots", 3, "--measures", "values", "--group", 4, "--card", "estimates",
               "--output", "out")  # fmt: skip
    assert done.code == 0, done.err
    assert asked == [estimators.Options(
        estimators=("elbo,mean_field",), views=(1, 2), slots=3, measures=("values",), group=4
    )]  # fmt: skip
    assert json.loads(Path("out/estimators.json").read_text()) == {"format": 1}
    assert done.out.startswith("a table\n") and "a note" in done.out and "Left out" in done.out
    first, second = catalogue.cards("results")
    assert (first.name, first.minutes, first.notes) == ("estimates", 1.0, ("a table", "a note"))
    assert second.name == "estimates-selection" and second.figure == "estimates-selection.svg"
    assert (checkout / "docs/assets/results/estimates-selection.svg").read_text() == "selection"
    assert json.loads(cli("lab", "estimators", "--json").out) == {"format": 1}


def test_without_matplotlib_there_is_a_note_instead_of_a_figure(cli, monkeypatch, tmp_path):
    from dllmzoo.cli import _cards
    from dllmzoo.lab import figure

    monkeypatch.setattr(figure, "find_spec", lambda name: None)
    assert _cards.draw(compare, {}, tmp_path / "x") == []
