"""Cards: where they are, how they are read, how they are refused."""

import re

import pytest

from dllmzoo import catalogue
from dllmzoo.errors import RecipeError, UnknownNameError
from dllmzoo.recipe import packaged


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """An empty registry/ in place of ours."""
    monkeypatch.setattr(packaged, "PACKAGE", tmp_path / "dllmzoo")

    def write(name: str, text: str):
        path = tmp_path / "registry" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_cards_are_read_by_kind_and_name(registry):
    path = registry(
        "models/one.yaml", "name: one\ntitle: The first\nfamily: llada\nstop_ids: [1, 2]\n"
    )
    assert catalogue.names("models") == ("one",)
    assert catalogue.path("models", "one") == path
    assert catalogue.summary("models", "one") == "The first"
    assert catalogue.card("models", "one")["stop_ids"] == (1, 2)
    assert catalogue.card("models", "one")["hub_id"] is None
    assert [card.name for card in catalogue.cards("models")] == ["one"]
    assert catalogue.cards("results") == []


def test_shipped_weights_are_folders(registry):
    text = "name: tiny\ntitle: Tiny\nfamily: llada\nlicence: MIT\nbefore: other\nscores: {a: 0.5}\n"
    path = registry("weights/tiny/card.yaml", text)
    assert catalogue.weights_folder("tiny") == path.parent
    assert catalogue.weights_folder("big") is None
    for spec in ("tiny", path.parent, str(path.parent)):
        card = catalogue.weights_card(spec)
        assert card is not None
        assert (card.before, card.scores) == ("other", {"a": 0.5})
    assert catalogue.weights_card("owner/name") is None
    assert catalogue.weights_card(None) is None


def test_a_card_is_checked_like_a_recipe(registry):
    path = registry("datasets/one.yaml", "name: one\ntitel: x\ntask: 3\norigin: generated\n")
    with pytest.raises(RecipeError) as caught:
        catalogue.card("datasets", "one")
    assert [(p.where, p.message) for p in caught.value.problems] == [
        (f"{path}:1:1", "is missing"),
        (f"{path}:2:1", "unknown option 'titel'"),
        (f"{path}:3:1", "expected str, got 3"),
    ]


def test_a_name_that_is_not_there_is_answered():
    with pytest.raises(UnknownNameError, match="Did you mean 'egspo-sa'"):
        catalogue.card("methods", "egspo_sa")
    with pytest.raises(UnknownNameError, match="no kind of card 'method'"):
        catalogue.names("method")


def test_recipes_are_found_from_here_too():
    assert catalogue.recipe_path("egspo_sudoku") == catalogue.recipes()["egspo_sudoku"]


# --- what others report


def test_published_numbers_lie_apart_from_measured_ones(registry):
    path = registry(
        "results/published/one.yaml",
        "name: one\ntitle: One\nsetting: Greedy.\ncolumns: [method, model, GSM8K, read in]\n"
        "rows:\n  - [x, y, null, authors]\n  - [x, z, 41.5, third party]\n",
    )
    assert catalogue.path("published", "one") == path
    assert catalogue.names("results") == ()
    [card] = catalogue.cards("published")
    assert card.rows == (("x", "y", None, "authors"), ("x", "z", 41.5, "third party"))
    assert not hasattr(card, "command")


PUBLISHED = catalogue.cards("published")
READ_IN = re.compile(r"authors( of \w+)?|third party|sources differ")


@pytest.mark.parametrize("card", PUBLISHED, ids=lambda card: card.name)
def test_a_published_table_says_of_every_number_whose_it_is(card):
    assert card.columns[:2] == ("method", "model") and card.columns[-1] == "read in"
    for row in card.rows:
        assert len(row) == len(card.columns)
        assert READ_IN.fullmatch(str(row[-1]))
        numbers = [cell for cell in row[2:-1] if not isinstance(cell, str)]
        assert any(number is not None for number in numbers)
        assert all(number is None or 0 <= number <= 512 for number in numbers)
    names = {str(row[0]) for row in card.rows}
    assert {name for name in names if name.islower()} <= {"untrained", *catalogue.names("methods")}


def test_numbers_of_methods_stand_in_a_published_table():
    reported = {
        (str(row[0]), head.partition(" ")[0], value)
        for card in PUBLISHED
        for row in card.rows
        for head, value in zip(card.columns, row, strict=True)
    }
    for method in catalogue.cards("methods"):
        for task, value in method.published.items():
            if value is not None:
                told = (method.name, task.partition(",")[0], value)
                assert told in reported, told


# --- facts that can be computed


@pytest.mark.parametrize("name", ["llada-8b-base", "llada-8b-instruct", "llada-1.5"])
def test_the_parameters_of_llada_follow_from_its_shape(name):
    card = catalogue.card("models", name)
    c = card["config"]
    width, mlp, vocabulary = c["d_model"], c["mlp_hidden_size"], card["vocab_size"]
    layer = 4 * width * width + 3 * width * mlp + 2 * width
    assert card["parameters"] == 2 * vocabulary * width + c["n_layers"] * layer + width


@pytest.mark.parametrize("name", ["sdar-4b-chat", "sdar-8b-chat"])
def test_the_parameters_of_sdar_follow_from_its_shape(name):
    card = catalogue.card("models", name)
    c = card["config"]
    width, head = c["hidden_size"], c["head_dim"]
    queries, keys = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    layer = 2 * width * (queries + keys) + 3 * width * c["intermediate_size"] + 2 * (width + head)
    total = 2 * card["vocab_size"] * width + c["num_hidden_layers"] * layer + width
    assert card["parameters"] == total
