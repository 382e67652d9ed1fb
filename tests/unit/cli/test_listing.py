"""`dllmzoo list`: names with one line each, patterns, plug-ins, JSON."""

import json

import pytest

from dllmzoo.zoo import LOSSES, ZOO

PLUGIN = '''
from dataclasses import dataclass
from dllmzoo import LOSSES

@LOSSES.register("of_a_stranger")
@dataclass(frozen=True)
class OfAStranger:
    """A loss that nobody knows."""
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    (tmp_path / "my_parts.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    with LOSSES.temporarily("of_a_stranger"):
        yield "./my_parts.py"


def test_every_component_is_listed_with_its_summary(cli):
    out = cli("list").out
    for registry in ZOO.values():
        for name, summary in registry.summaries().items():
            assert name in out and summary in out


def test_the_heading_is_the_plural(cli):
    assert cli("list", "loss").out.startswith("losses\n  ")


@pytest.mark.parametrize("word", ["loss", "losses"])
def test_a_kind_may_be_singular_or_plural(cli, word):
    out = cli("list", word).out
    assert "stable_drl" in out and "low_confidence" not in out


def test_recipes_and_methods_are_listed_by_title(cli):
    assert "EGSPO-SA on 4x4 Sudoku" in cli("list", "recipes").out
    assert "egspo-sa" in cli("list", "methods").out
    assert "llada-8b-instruct" in cli("list", "weights").out


def test_a_wildcard_pattern_selects_names(cli):
    out = cli("list", "loss", "*_drl").out
    assert "stable_drl" in out and "clipped_surrogate" not in out


def test_a_part_of_a_name_is_a_pattern_too(cli):
    assert "clipped_surrogate" in cli("list", "loss", "surr").out


def test_a_pattern_alone_searches_every_kind(cli):
    out = cli("list", "*entropy*").out
    assert out.startswith("samplers\n") and "\nselectors\n" in out and "losses" not in out


def test_json_has_kind_name_and_summary(cli):
    rows = json.loads(cli("list", "selector", "surprisal", "--json").out)
    assert rows == [
        {
            "kind": "selector",
            "name": "surprisal",
            "summary": ZOO["selector"].summaries()["surprisal"],
        }
    ]


def test_an_unknown_kind_is_answered_with_the_nearest(cli):
    done = cli("list", "selecter")
    assert done.code == 2
    assert "there is no kind 'selecter'. Did you mean 'selector'" in done.err


def test_a_pattern_without_match_is_answered_with_the_nearest_name(cli):
    done = cli("list", "selector", "entorpy")
    assert done.code == 2
    assert "no selector matches 'entorpy'. Did you mean 'entropy'" in done.err


def test_a_plugin_is_listed_beside_the_built_in_parts(cli, plugin):
    done = cli("list", "loss", "--plugin", plugin)
    assert "of_a_stranger" in done.out and "A loss that nobody knows." in done.out


def test_a_missing_plugin_is_named(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("list", "--plugin", "./nowhere.py")
    assert done.code == 2
    assert "nowhere.py is not there" in done.err


def test_a_broken_plugin_is_named_with_its_error(cli, tmp_path, monkeypatch):
    (tmp_path / "broken_parts.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    done = cli("list", "--plugin", "./broken_parts.py")
    assert done.code == 2
    assert "broken_parts.py" in done.err and "ZeroDivisionError" in done.err
