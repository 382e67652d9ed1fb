"""Cards, code and recipes name only each other's real things, and every recipe is cited."""

import re
from pathlib import Path

import pytest

from dllmzoo import catalogue
from dllmzoo.checks import check
from dllmzoo.recipe import load, resolved
from dllmzoo.recipe.document import read
from dllmzoo.zoo import MODELS, TASKS, ZOO

PROJECT = Path(__file__).parents[2]
RECIPES = catalogue.recipes()
FILES = [(kind, name) for kind in catalogue.CARDS for name in catalogue.names(kind)]
WRITTEN_OUT = ("selector.name", "loss.clip_low", "optimizer.lr", "train.group_size")


def test_every_recipe_file_is_found():
    files = [p for p in (PROJECT / "recipes").rglob("*.y*ml") if p.parent.name != "_accelerate"]
    assert len(RECIPES) == len(files) >= 7
    assert len(FILES) == len(list((PROJECT / "registry").rglob("*.yaml"))) >= 10


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_every_card_parses_and_bears_its_name(kind, name):
    card = catalogue.card(kind, name)
    assert card["name"] == name
    assert re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", name)
    assert card["title"]


def test_models_and_weights_are_of_a_family_we_build():
    for card in [*catalogue.cards("models"), *catalogue.cards("weights")]:
        assert card.family in MODELS.names()


def test_data_sets_belong_to_a_task():
    for card in catalogue.cards("datasets"):
        assert card.task in TASKS.names()


def test_methods_name_real_parts_and_recipes():
    for card in catalogue.cards("methods"):
        assert set(card.recipes) <= set(RECIPES)
        for kind, names in card.parts.items():
            assert set(names) <= set(ZOO[kind].names())
        assert not card.published or (card.published_model and card.published_source)


def test_weights_name_real_recipes_and_weights():
    for card in catalogue.cards("weights"):
        assert set(card.recipes) <= set(RECIPES)
        assert card.before is None or card.before in catalogue.names("weights")


def test_results_are_whole_tables_of_real_recipes_with_their_command():
    for card in catalogue.cards("results"):
        assert set(card.recipes) <= set(RECIPES), card.name
        assert card.command.startswith("dllmzoo "), card.name
        assert card.machine and card.version, card.name
        assert card.columns and card.rows, card.name
        assert all(len(row) == len(card.columns) for row in card.rows), card.name


def test_figures_of_results_are_there_and_belong_to_one():
    folder = PROJECT / "docs" / "assets" / "results"
    named = {card.figure for card in catalogue.cards("results") if card.figure}
    assert named == {file.name for file in folder.glob("*")}


def test_pages_show_results_that_exist():
    for page in (PROJECT / "docs").rglob("*.md"):
        for name in re.findall(r"<!-- results:([\w.-]+) -->", page.read_text(encoding="utf-8")):
            assert name in catalogue.names("results"), f"{page.name}: {name}"


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_cited_by_a_card(name):
    citing = [
        c.name
        for kind in ("methods", "weights")
        for c in catalogue.cards(kind)
        if name in c.recipes
    ]
    recipe = load(RECIPES[name])
    if recipe.method:
        assert recipe.method in citing
    else:
        assert recipe.stage == "sft"
        assert citing or not catalogue.names("weights")


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("smoke", [False, True])
def test_every_recipe_loads_and_has_no_problem(name, smoke):
    recipe = load(RECIPES[name], smoke=smoke)
    assert recipe.notices == []
    assert load(resolved(recipe)) == recipe
    assert check(recipe) == []


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_says_how_it_is_run_and_writes_the_main_keys_out(name):
    text = RECIPES[name].read_text(encoding="utf-8")
    header = text[: text.index("format: 1")]
    assert header.startswith("# ")
    assert f"dllmzoo train {name}" in header or f"train {name}" in header
    document, recipe = read(RECIPES[name]).plain(), load(RECIPES[name])
    for key in WRITTEN_OUT:
        part, _, option = key.partition(".")
        idle = recipe.stage == "sft" and key == "train.group_size"
        if option and part in document and not idle and hasattr(getattr(recipe, part), option):
            assert option in document[part], key
    assert "seed" in document
    assert "smoke" in document
    assert document["output"] == f"runs/{name}"
