"""The installed program: quick without torch, quiet in a broken pipe, and every recipe runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from dllmzoo import catalogue
from dllmzoo.cli._app import run
from dllmzoo.recipe import load
from dllmzoo.recipe.packaged import recipes

TINY = sorted(name for name in recipes() if "/" not in name)
LARGE = sorted(name for name in recipes() if "/" in name)


def python(*words, **options):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, **options)


@pytest.mark.parametrize("command", [["list"], ["list", "weights"], ["show", "recipe", TINY[0]],
                                     ["--help"], ["list", "lossess"]], ids=" ".join)  # fmt: skip
def test_what_needs_no_torch_imports_none(command):
    code = (
        f"import sys; from dllmzoo.cli._app import run; code = run({command}); "
        "heavy = {'torch', 'numpy', 'transformers'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_the_module_is_the_program():
    done = python("-m", "dllmzoo", "list", "loss", "stable_drl")
    assert done.returncode == 0
    assert done.stdout.startswith("losses\n  stable_drl")


def test_a_reader_that_leaves_early_sees_no_error():
    program = f"{sys.executable} -m dllmzoo"
    done = subprocess.run(
        f"{program} list | head -n 1; {program} schema | head -n 1",
        shell=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "models\n{\n"
    assert done.stderr == ""


def test_there_are_recipes():
    assert len(TINY) >= 6 and "egspo_sa_sudoku" in TINY and LARGE


@pytest.mark.parametrize("name", TINY)
def test_a_shipped_recipe_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    weights = load(name).model.weights
    if weights is not None and catalogue.weights_folder(weights) is None:
        pytest.skip(f"the weights {weights} are not in registry/weights yet")
    code = run(["train", name, "--smoke"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert "trained" in captured.out
    assert (Path(load(name, smoke=True).output) / "final" / "config.json").is_file()


@pytest.mark.parametrize("name", LARGE)
def test_a_large_recipe_is_right_where_its_weights_are_not(name, capsys):
    assert run(["check", name]) == 0, capsys.readouterr().out
