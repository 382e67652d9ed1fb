"""Cards of results: written, read back, and refused where there is no checkout."""

import pytest

import dllmzoo
from dllmzoo import catalogue
from dllmzoo.errors import UsageError
from dllmzoo.lab.card import refuse_card, result_card, write_card
from dllmzoo.recipe import packaged


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """An empty checkout in place of ours."""
    monkeypatch.setattr(packaged, "PACKAGE", tmp_path / "dllmzoo")
    (tmp_path / "docs").mkdir()
    (tmp_path / "registry").mkdir()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "egspo.yaml").write_text("title: x\n")
    return tmp_path


def test_a_card_is_read_back_as_it_was_written(checkout, tmp_path):
    (tmp_path / "curves.svg").write_text("<svg/>")
    card = result_card(
        "tiny-study", "What we saw: a study", "dllmzoo lab compare --tune 1,2,4", ("method", "lr"),
        [("egspo", "2e-4"), ("no | bar", "1e+13"), ("yes", "0.370 to 0.414"), ("", "0.5")],
        recipes=["egspo", str(checkout / "recipes" / "egspo.yaml"), "mine.yaml"], seeds=(0, 1),
        minutes=1.234, verdicts=["a is higher"], notes=["one machine"],
    )  # fmt: skip
    file = write_card(card, tmp_path / "curves.svg")
    assert file == checkout / "registry" / "results" / "tiny-study.yaml"
    (read,) = catalogue.cards("results")
    assert (read.name, read.title, read.command) == (card.name, card.title, card.command)
    assert (read.columns, read.rows) == (card.columns, card.rows)  # text stays text
    assert read.recipes == ("egspo", "egspo") and read.seeds == (0, 1) and read.minutes == 1.2
    assert read.version == dllmzoo.__version__ and read.machine
    assert read.figure == "tiny-study.svg"
    assert (checkout / "docs" / "assets" / "results" / "tiny-study.svg").read_text() == "<svg/>"


@pytest.mark.parametrize("name", ["Tiny", "a_b", "", "-a", "a b"])
def test_a_card_has_a_kebab_case_name(checkout, name):
    with pytest.raises(UsageError, match="kebab-case"):
        refuse_card(name)


def test_without_a_checkout_there_is_no_card(tmp_path):
    with pytest.raises(UsageError, match="is none"):
        refuse_card("tiny", tmp_path)
