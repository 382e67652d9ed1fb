"""Every recipe line of docs/migrating.md is one that a recipe accepts."""

import re
import subprocess
import sys

import pytest

from dllmzoo.cli._app import run
from dllmzoo.errors import RecipeError
from dllmzoo.recipe import load
from dllmzoo.recipe.renamed import RENAMED
from tests.docs.blocks import PROJECT, blocks

PAGE = (PROJECT / "docs" / "migrating.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ", 1)[1] for line in PAGE.splitlines() if line.startswith("| ")]
LINE = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*): ([^`]+)`")
LINES = sorted({(key, value) for row in ROWS for key, value in LINE.findall(row)})
RECIPES = {
    "sft": "llada_8b/sft_s1k",
    "selector": "llada_8b/egspo_sa_sudoku",
    "advantage.weight": "llada_8b/egspo_sa_sudoku",
}
"""Of lines that d1's recipe has no place for: section or key -> a recipe that has."""


def base(key: str) -> str:
    return RECIPES.get(key, RECIPES.get(key.partition(".")[0], "llada_8b/diffu_grpo_sudoku"))


def test_there_are_many_lines():
    assert len(LINES) > 60


@pytest.mark.parametrize(("key", "value"), LINES, ids=lambda word: str(word))
def test_a_line_is_accepted_by_a_recipe(key, value):
    before = ["stage=sft", "task=chat"] if "name: chat" in value else []
    assert load(base(key), overrides=[*before, f"{key}={value}"]).title


def test_a_line_with_an_unknown_key_is_not_accepted():
    with pytest.raises(RecipeError, match="unknown option"):
        load("llada_8b/diffu_grpo_sudoku", overrides=["loss.clip_medium=0.2"])


def test_the_old_name_that_the_page_shows_is_answered_as_it_says(capsys):
    old, said = re.search(r"`(loss\.\w+)` is answered by \*(.+?)\*", PAGE).groups()
    assert RENAMED[old] in said
    assert run(["check", "llada_8b/diffu_grpo_sudoku", f"{old}=0.04"]) == 2
    shown = capsys.readouterr()
    assert said in " ".join((shown.out + shown.err).split())


@pytest.mark.slow  # a run in a process of its own: it declares a reward
def test_the_reward_of_trl_is_trained_with(tmp_path):
    for block in blocks(PROJECT / "docs" / "migrating.md"):
        if block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    command = [sys.executable, "-m", "dllmzoo", "train", "words.yaml", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    last = (tmp_path / "runs" / "words" / "metrics.jsonl").read_text().splitlines()[-1]
    assert '"reward/words": -' in last


@pytest.mark.parametrize("name", sorted(set(re.findall(r"recipe `(llada_8b/\w+)`", PAGE))))
def test_a_recipe_that_the_page_names_is_shipped(name):
    assert load(name).title
