"""`dllmzoo show`: one component, recipe or card in full."""

import json

import pytest
import yaml

from dllmzoo.cli import show


def test_a_component_is_shown_in_full(cli):
    out = cli("show", "selector", "entropy").out
    assert out.startswith("selector entropy\nThe `steps` denoising steps of highest entropy")
    for heading in ("parameter", "type", "range", "default", "meaning"):
        assert heading in out
    row = next(line for line in out.splitlines() if line.startswith("steps "))
    assert "int" in row and "[1, inf)" in row and "8" in row and "how many steps" in row
    assert "arXiv:2603.12554" in out
    assert "entropy.py:" in out
    assert "egspo_sa_sudoku" in out


def test_sections_that_are_shown_on_their_own_are_not_repeated(cli):
    out = cli("show", "selector", "entropy").out
    assert "Args:" not in out and "References:" not in out
    assert out.count("arXiv:2603.12554") == 1


def test_exemptions_are_shown_with_their_reason(cli):
    assert "exempt from the law unbiased: " in cli("show", "likelihood", "mean_field").out


def test_an_alias_shows_its_component(cli):
    out = cli("show", "loss", "ppo").out
    assert out.startswith("loss clipped_surrogate\n")
    assert "aliases  " in out and "grpo" in out


def test_recipes_are_found_under_an_alias_and_inside_other_parts(cli):
    shown = json.loads(cli("show", "loss", "stable_drl", "--json").out)
    assert "stable_drl_sudoku" in shown["recipes"]


def test_recipes_of_a_schedule_are_those_that_sample_or_mask_by_it(cli):
    def users(name):
        return json.loads(cli("show", "schedule", name, "--json").out)["recipes"]

    assert users("ascending") == ["cj_grpo_sudoku", "llada_8b/cj_grpo_sudoku"], "sampler.commits"
    tiny = ["sft_countdown_tiny", "sft_sudoku_sdar_tiny", "sft_sudoku_tiny"]
    assert users("linear") == ["llada_8b/sft_s1k", *tiny], "sft.schedule"
    assert users("cosine") == [], "optimizer.schedule is of learning rates"


def test_recipes_are_found_by_a_part_inside_a_part_of_its_kind():
    recipe = {"loss": {"name": "perturbed", "inner": {"name": "cispo"}}}
    assert show._mentions(recipe, "loss", {"cispo"})
    assert not show._mentions(recipe, "advantage", {"cispo"})


def test_the_kind_may_be_left_out(cli):
    assert cli("show", "stable_drl").out.startswith("loss stable_drl\n")
    assert cli("show", "ppo").out.startswith("loss clipped_surrogate\n")


def test_a_name_of_two_kinds_asks_which(cli):
    done = cli("show", "grpo")
    assert done.code == 2
    assert "dllmzoo show advantage grpo or dllmzoo show loss grpo" in done.err


def test_a_kind_without_a_name_asks_which(cli):
    done = cli("show", "loss")
    assert done.code == 2
    assert "dllmzoo list loss" in done.err


def test_an_unknown_name_is_answered_with_the_nearest(cli):
    done = cli("show", "selector", "entorpy")
    assert done.code == 2
    assert "no selector named 'entorpy'. Did you mean 'entropy'" in done.err
    said = cli("show", "entorpy").err
    assert "Did you mean 'entropy'" in said and said.count("'entropy'") == 1


def test_json_holds_what_the_page_shows(cli):
    shown = json.loads(cli("show", "selector", "entropy", "--json").out)
    assert shown["name"] == "entropy" and shown["kind"] == "selector"
    steps = next(p for p in shown["parameters"] if p["name"] == "steps")
    assert (steps["type"], steps["range"], steps["default"]) == ("int", "[1, inf)", "8")


def test_a_recipe_is_shown_as_it_is_written(cli):
    out = cli("show", "recipe", "egspo_sa_sudoku").out
    assert out.startswith("# recipe egspo_sa_sudoku\n# ")
    assert yaml.safe_load(out)["method"] == "egspo-sa"  # redirected into a file it is a recipe
    assert "likelihood:\n  name: denoising_steps" in out


def test_a_card_is_shown_as_it_is_written(cli):
    assert "arxiv" in cli("show", "method", "egspo-sa").out
    assert json.loads(cli("show", "method", "egspo-sa", "--json").out)["name"] == "egspo-sa"


@pytest.mark.parametrize("kind", ["recipe", "method", "weights", "dataset"])
def test_an_unknown_card_is_an_error(cli, kind):
    done = cli("show", kind, "nothing-like-it")
    assert done.code == 2
    assert "nothing-like-it" in done.err
