"""Results on the site: the table, what it says, how it was made."""

import sys
from types import SimpleNamespace

import pytest

from dllmzoo.catalogue import ResultCard
from dllmzoo.errors import UnknownNameError
from tests.docs.blocks import PROJECT

sys.path.insert(0, str(PROJECT / "docs"))
import hooks

sys.path.pop(0)

CARD = ResultCard(
    name="tiny", title="Two methods", command="dllmzoo lab compare a b", recipes=("a", "b"),
    machine="2 CPU cores", minutes=61.0, version="0.1.0", seeds=(0, 1), columns=("method", "final"),
    rows=(("a", 0.5), ("b | c", "0.4")), verdicts=("a is higher.",), figure="tiny.svg",
    notes=("Small.",),
)  # fmt: skip
PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="methods/a.md"))


def test_a_result_is_its_verdicts_table_figure_and_command():
    assert hooks.result_block(CARD, PAGE).split("\n\n") == [
        "**Two methods.**",
        "- a is higher.",
        "| method | final |\n| --- | --- |\n| a | 0.5 |\n| b \\| c | 0.4 |",
        "![Two methods](../assets/results/tiny.svg)",
        "Made by `dllmzoo lab compare a b`, 61 minutes, on 2 CPU cores, seeds 0, 1, dllmzoo 0.1.0.",
        "- Small.",
    ]


def test_one_result_or_all_of_them(monkeypatch):
    monkeypatch.setattr(hooks, "cards", lambda kind: [CARD])
    monkeypatch.setattr(hooks, "card_path", lambda kind, name: PROJECT / f"{name}.yaml")
    assert hooks.results_table("tiny", PAGE, None) == hooks.result_block(CARD, PAGE)
    every = hooks.catalogue_cards("results", PAGE, None)
    assert every == f"### tiny\n\n{hooks.result_block(CARD, PAGE)}"
    monkeypatch.setattr(hooks, "cards", lambda kind: [])
    assert hooks.results_table(None, PAGE, None) == "None yet."


def test_a_result_that_is_not_there_stops_the_build():
    with pytest.raises(UnknownNameError, match="no card 'never-measured' in registry/results"):
        hooks.results_table("never-measured", PAGE, None)


def test_commands_of_a_group_are_listed_after_it():
    text = hooks.command_table(None, PAGE, None)
    heads = [line for line in text.splitlines() if line.startswith("### ")]
    assert heads.index("### lab compare") == heads.index("### lab") + 1
    assert "### sweep" in heads
