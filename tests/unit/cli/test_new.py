"""`dllmzoo new`: where files go, which names are refused; what is written obeys its laws."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from dllmzoo import laws
from dllmzoo.cli import new
from dllmzoo.plugins import load_plugin
from dllmzoo.zoo import ZOO

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like a checkout of dllmzoo."""
    (tmp_path / "dllmzoo").mkdir()
    (tmp_path / "dllmzoo" / "zoo.py").touch()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "dllmzoo"\n')
    return tmp_path


@pytest.mark.parametrize("kind", ZOO)
def test_a_written_component_obeys_its_laws_and_its_test_passes(cli, tmp_path, kind):
    name = f"fresh_{kind}"
    done = cli("new", kind, name, "--folder", tmp_path)
    assert done.code == 0, done.err
    with ZOO[kind].temporarily(name):
        load_plugin(f"{name}.py", tmp_path)
        assert name in ZOO[kind].names()
        info = ZOO[kind].describe(name)
        assert info.summary.endswith(".") and len(info.summary) <= 88
        assert all(p.meaning for p in info.parameters)
        getattr(laws, f"check_{kind}")(ZOO[kind].get(name))
        tests = load_plugin(f"test_{name}.py", tmp_path)
        cases = [case for word, case in vars(tests).items() if word.startswith("test_")]
        assert len(cases) >= 2
        for i, case in enumerate(cases):
            folder = tmp_path / f"case-{i}"
            folder.mkdir()
            case(*[folder] * len(inspect.signature(case).parameters))


def test_the_files_and_what_to_do_next_are_printed(cli, tmp_path):
    out = cli("new", "loss", "my_loss", "--folder", tmp_path).out
    assert f"wrote {tmp_path / 'my_loss.py'}" in out
    assert f"pytest {tmp_path / 'test_my_loss.py'}" in out
    assert "plugins: [./my_loss.py]" in out and "loss: {name: my_loss}" in out


def test_a_new_schedule_is_used_inside_a_sampler(cli, tmp_path):
    out = cli("new", "schedule", "my_schedule", "--folder", tmp_path).out
    assert "sampler: {..., commits: {name: my_schedule}}" in out
    assert "\n  schedule:" not in out


def test_without_a_folder_a_plugin_goes_here(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("new", "selectors", "margin").code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["margin.py", "test_margin.py"]


@pytest.mark.parametrize("below", [".", "recipes"])
def test_inside_a_checkout_it_goes_into_the_package(cli, checkout, monkeypatch, below):
    (checkout / below).mkdir(exist_ok=True)
    monkeypatch.chdir(checkout / below)
    done = cli("new", "loss", "my_loss")
    assert done.code == 0, done.err
    component = (checkout / "dllmzoo" / "losses" / "my_loss.py").read_text()
    assert '@LOSSES.register("my_loss")' in component and "class MyLoss" in component
    test = (checkout / "tests" / "unit" / "losses" / "test_my_loss.py").read_text()
    assert "from dllmzoo.losses.my_loss import MyLoss" in test
    assert "load_plugin" not in test


def test_a_folder_named_inside_a_checkout_gets_a_plugin(cli, checkout, monkeypatch):
    monkeypatch.chdir(checkout)
    assert cli("new", "loss", "my_loss", "--folder", "recipes").code == 0
    assert (checkout / "recipes" / "my_loss.py").is_file()


@pytest.mark.parametrize("kind", ZOO)
def test_files_for_the_package_are_formatted_and_clean(checkout, kind):
    for path in (PROJECT / "dllmzoo" / "zoo.py", PROJECT / "pyproject.toml"):
        (checkout / path.relative_to(PROJECT)).write_text(path.read_text())
    files = new.write_built_in(kind, "a_new_part", checkout)
    ours = ["--config", 'lint.isort.known-first-party = ["dllmzoo"]']
    for words in (["format", "--check", "-q"], ["check", "-q", *ours]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--no-cache", *files],
            cwd=checkout, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", ["my_loss.py", "test_my_loss.py"])
def test_an_existing_file_is_never_overwritten(cli, tmp_path, file):
    (tmp_path / file).write_text("mine")
    done = cli("new", "loss", "my_loss", "--folder", tmp_path)
    assert done.code == 2
    assert f"{tmp_path / file} is there already; nothing was written" in done.err
    assert [p.name for p in tmp_path.iterdir()] == [file]


def test_a_taken_name_is_refused_with_its_place(cli, tmp_path):
    done = cli("new", "loss", "stable_drl", "--folder", tmp_path)
    assert done.code == 2
    assert "the loss 'stable_drl' exists already, at " in done.err
    assert "stable_drl.py:" in done.err


def test_a_taken_alias_is_refused_with_its_component(cli, tmp_path):
    done = cli("new", "loss", "ppo", "--folder", tmp_path)
    assert "the loss 'ppo' (an alias of 'clipped_surrogate') exists already" in done.err


@pytest.mark.parametrize(
    ("name", "better"),
    [("MyLoss", "my_loss"), ("my-loss", "my_loss"), ("class", "my_component"), ("2x", "x"),
     ("_x", "x"), ("a__b", "a_b"), ("../x", "x")],
)  # fmt: skip
def test_a_name_that_is_no_snake_case_is_refused(cli, tmp_path, name, better):
    done = cli("new", "loss", name, "--folder", tmp_path)
    assert done.code == 2
    assert f"{name!r} cannot be the name of a component" in done.err
    assert f"such as {better!r}" in done.err


@pytest.mark.parametrize("name", ["torch", "json"])
def test_a_file_that_would_hide_a_module_is_refused(cli, tmp_path, name):
    done = cli("new", "loss", name, "--folder", tmp_path)
    assert done.code == 2
    assert f"would hide the Python module {name!r}" in done.err
    importlib.import_module(name)


def test_a_kind_that_is_no_component_is_refused(cli):
    done = cli("new", "recipe", "mine")
    assert done.code == 2
    assert "a recipe is no component" in done.err
    assert "Did you mean 'loss'" in cli("new", "los", "mine").err


def test_a_folder_that_cannot_be_made_is_an_error(cli, tmp_path):
    (tmp_path / "file").touch()
    done = cli("new", "loss", "my_loss", "--folder", tmp_path / "file")
    assert done.code == 2
    assert "cannot be written" in done.err
