"""The project's own files agree with each other and name nothing of one machine."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import dllmzoo
from dllmzoo.zoo import LOSSES

PROJECT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".cff", ".txt", ".json", ".csv", ".svg", ".js"}
RECIPES = [p for p in sorted((PROJECT / "recipes").rglob("*.yaml")) if p.parent.name[0] != "_"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints() -> dict[str, str]:
    lines = (PROJECT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    return {normal(name): version for name, _, version in (pin.partition("==") for pin in pins)}


def requirements() -> list[Requirement]:
    project = PYPROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(line) for lines in groups for line in lines]
    return [requirement for requirement in found if requirement.name != "dllmzoo"]


def text_files() -> list[Path]:
    skipped = {".git", ".venv", "site", "runs", "shared", "node_modules", "build", "dist"}
    found = []
    for folder, folders, files in os.walk(PROJECT):
        folders[:] = [f for f in folders if f not in skipped and not f.endswith("cache")]
        found += [Path(folder, f) for f in files if Path(f).suffix in TEXT or f == "Makefile"]
    return sorted(found)


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_a_dependency_is_pinned_to_a_version_it_allows(requirement):
    assert requirement.specifier.contains(constraints()[normal(requirement.name)])


def test_torch_is_pinned_without_a_build_label():
    assert constraints()["torch"] == "2.13.0"


def test_one_version_everywhere():
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert PYPROJECT["project"]["version"] == dllmzoo.__version__ == citation["version"]


def test_the_wheel_carries_recipes_and_the_catalogue():
    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {
        "recipes": "dllmzoo/_data/recipes",
        "registry": "dllmzoo/_data/registry",
    }


def test_the_source_archive_holds_what_a_wheel_is_built_from():
    included = set(PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert {"dllmzoo", "recipes", "registry", "tests", "docs", "constraints.txt"} <= included


def test_continuous_integration_runs_what_contributors_run():
    script = PROJECT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("make check")


@pytest.mark.parametrize("target", ["demo", "check", "fix", "docs", "golden", "clean"])
def test_make_has_the_documented_targets(target):
    text = (PROJECT / "Makefile").read_text()
    assert re.search(rf"^{target}:", text, re.MULTILINE)
    assert re.search(rf"^# make {target} ", text, re.MULTILINE)


def test_make_golden_asks_for_a_folder():
    arguments = ["make", "-C", str(PROJECT), "-o", ".venv/installed-dev", "golden", "DIR="]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(arguments, capture_output=True, text=True, env=outside)
    assert done.returncode == 2
    assert "make golden DIR=folder" in done.stderr


def test_commit_hooks_use_the_tools_of_the_environment():
    hooks = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    for hook in hooks[0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")


def test_no_text_names_a_folder_of_somebodys_machine():
    folder = re.compile(r"(?<![\w.~:/}])/(work|root|home|mnt|opt|Users)/\w")
    named = [
        f"{path.relative_to(PROJECT)}: {match[0]}"
        for path in text_files()
        for match in [folder.search(path.read_text(encoding="utf-8", errors="replace"))]
        if match
    ]
    assert not named


def test_no_text_names_a_package_host():
    hosts = re.compile(
        r"pypi\.(org|python)|pythonhosted|npmjs|--?(extra-)?index-url|download\.pytorch"
    )
    text = {path: path.read_text(encoding="utf-8", errors="replace") for path in text_files()}
    assert not [path for path, t in text.items() if hosts.search(t) and path != Path(__file__)]


def test_there_are_recipes():
    assert len(RECIPES) >= 6


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_writes_the_keys_that_people_change(path):
    document = yaml.safe_load(path.read_text())
    assert document["format"] == 1
    assert "seed" in document
    assert "lr" in document["optimizer"]
    if document.get("stage", "rl") == "rl":
        clips = hasattr(LOSSES.get(document["loss"]["name"]), "clip_low")
        assert "clip_low" in document["loss"] or not clips
        assert "group_size" in document["train"]
        if "selector" in document:
            assert document["selector"]["name"]
