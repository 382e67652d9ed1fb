"""Cards: where they are, how they are read, how they are refused."""

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
