"""Shipped recipes by name."""

import pytest

from dllmzoo.errors import UnknownNameError
from dllmzoo.recipe import packaged


def test_recipes_in_folders_are_named_with_their_folder():
    assert packaged.recipes()["llada_8b/egspo_sa_sudoku"].name == "egspo_sa_sudoku.yaml"
    assert packaged.recipe_path("egspo_sa_sudoku").parent == packaged.data_folder("recipes")


def test_data_of_an_installed_wheel_come_first(tmp_path, monkeypatch):
    package = tmp_path / "site" / "dllmzoo"
    monkeypatch.setattr(packaged, "PACKAGE", package)
    assert packaged.data_folder("recipes") == tmp_path / "site" / "recipes"
    assert packaged.recipes() == {}
    folder = package / "_data" / "recipes" / "deep"
    folder.mkdir(parents=True)
    (folder / "one.yaml").write_text("seed: 1\n")
    assert packaged.recipes() == {"deep/one": folder / "one.yaml"}


def test_a_typo_in_a_name_is_answered():
    with pytest.raises(UnknownNameError, match="did you mean 'egspo_sudoku'"):
        packaged.recipe_path("egspo_sudoko.yaml")
