"""Every code block of the documentation runs, in the order of its page."""

import sys
from contextlib import ExitStack

import pytest
import typer

from dllmzoo import ZOO
from tests.docs.blocks import PAGES, PROJECT, Block, blocks

BLOCKS = [block for page in PAGES for block in blocks(page)]
LANGUAGES = {"python", "pycon", "yaml", "console", "text", "toml", "json"}


def of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to run a page in: its files can be imported, its components are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    modules = set(sys.modules)
    with ExitStack() as stack:
        for registry in ZOO.values():
            stack.enter_context(registry.temporarily("", None))
        yield tmp_path
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def write_files(page, folder):
    """Blocks with a title are files of that name."""
    for block in blocks(page):
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")


def test_blocks_say_their_language():
    assert {block.language for block in BLOCKS} <= LANGUAGES


@pytest.mark.parametrize(
    "page",
    sorted({block.page for block in of("python")}),
    ids=lambda page: page.relative_to(PROJECT).as_posix(),
)
def test_python_runs(page, folder):
    write_files(page, folder)
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python" and not block.title:
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)


@pytest.mark.parametrize(
    "block", [block for block in of("yaml") if block.text.startswith("format:")], ids=str
)
def test_a_whole_recipe_loads(block, folder):
    from dllmzoo.recipe import load

    write_files(block.page, folder)
    path = folder / "recipe.yaml"
    path.write_text(block.text, encoding="utf-8")
    assert load(path).title


@pytest.mark.parametrize("block", of("console"), ids=str)
def test_console_commands_are_accepted(block, folder, monkeypatch):
    """Training is asked for its plan only; what is not dllmzoo is left alone."""
    from dllmzoo.cli._app import run

    for laboratory in ("compare", "estimators", "stability"):
        monkeypatch.setattr(f"dllmzoo.lab.{laboratory}.run", asked, raising=False)
    write_files(block.page, folder)
    for words in block.commands():
        if words[0] != "dllmzoo":
            continue
        if words[1] in ("train", "sweep") and not {"--dry-run", "--print-config"} & set(words):
            words = [*words, "--dry-run"]
        if words[1] != "new":
            known = [word.replace("my_recipe.yaml", recipe(folder)) for word in words[1:]]
            assert run(known) == 0, " ".join(words)


def asked(options, say=None):
    """In place of an experiment that takes minutes: its options were accepted."""
    raise typer.Exit


def recipe(folder) -> str:
    """The page's own recipe, or a shipped one in its place."""
    own = folder / "my_recipe.yaml"
    if not own.exists():
        own.write_text((PROJECT / "recipes" / "egspo_sa_sudoku.yaml").read_text())
    return str(own)
