"""The API reference has no gaps: every public module stands on a page."""

import importlib
import re
import sys

import pytest

from dllmzoo import ZOO
from tests.docs.blocks import PROJECT

sys.path.insert(0, str(PROJECT / "docs"))
import api_pages

sys.path.pop(0)

DOCS = PROJECT / "docs"
KINDS = {str(registry.package) for registry in ZOO.values()}
TEXTS = {path: api_pages.expanded(path.read_text(encoding="utf-8")) for path in DOCS.rglob("*.md")}
NAMED = sorted({name for text in TEXTS.values() for name in api_pages.NAMED.findall(text)})


def home(module: str) -> str | None:
    """What shows a module that no page names: a component's own page, or the command line's."""
    package, _, name = module.rpartition(".")
    if package in KINDS and name in next(r for r in ZOO.values() if r.package == package).names():
        return "a component"
    return "the command line" if module.startswith("dllmzoo.cli") else None


def test_every_public_module_stands_on_a_page():
    modules = [name for name in api_pages.public_modules("dllmzoo") if name != "dllmzoo"]
    assert len(modules) > 150
    assert not [name for name in modules if name not in NAMED and home(name) is None]


def test_the_command_line_has_its_page():
    assert "<!-- commands -->" in (DOCS / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMED)
def test_what_a_page_names_exists_and_is_documented(name):
    path = PROJECT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return  # a module: its docstrings are those of tests/contract/test_public_api.py
    module, _, attribute = name.rpartition(".")
    assert getattr(importlib.import_module(module), attribute).__doc__


def test_a_module_stands_on_one_page_once():
    blocks = [name for text in TEXTS.values() for name in api_pages.NAMED.findall(text)]
    assert not {name for name in blocks if blocks.count(name) > 1}


def test_a_package_is_expanded_to_what_the_page_does_not_name(tmp_path, monkeypatch):
    for file in ("part/__init__.py", "part/b.py", "part/a.py", "part/_c.py", "part/_d/e.py"):
        path = tmp_path / "dllmzoo" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(api_pages, "ROOT", tmp_path)
    text = api_pages.expanded("::: dllmzoo.part.a\n\n<!-- modules:part -->\n")
    assert re.findall(r"^::: (.+)$", text, re.M) == [f"dllmzoo.part{x}" for x in (".a", "", ".b")]
    with pytest.raises(ValueError, match="there is no public module"):
        api_pages.expanded("<!-- modules:absent -->")
