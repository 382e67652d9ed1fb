"""The site is made from the code: tables, component pages, and pages of plug-ins."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dllmzoo import ZOO
from dllmzoo.describe import Info, Parameter
from tests.docs.blocks import PROJECT, blocks

sys.path.insert(0, str(PROJECT / "docs"))
import hooks

sys.path.pop(0)

DOCS = PROJECT / "docs"


def settings() -> dict:
    text = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def info(**changes) -> Info:
    values = {
        "kind": "loss",
        "name": "mine",
        "aliases": ("own",),
        "summary": "One line.",
        "doc": "One line.\n\nMore.\n\nArgs:\n    power: alpha.\n\nReferences:\n    Me, 2026.",
        "parameters": (Parameter("power", "number | null", "[0, 1]", "0.5", "alpha."),),
        "references": "Me, 2026.",
        "location": "mine.py:3",
        "exempt": {"unbiased": "a test"},
    }
    return Info(**(values | changes))


def test_a_component_page_tells_all_that_is_known():
    page = hooks.component_page(info(), "mine.py", ["egspo"])
    assert "# mine" in page and "Also called `own`" in page and "More." in page
    assert "loss:\n  name: mine\n  power: 0.5\n" in page
    assert "| `power` | `number | null` | `[0, 1]` | `0.5` | alpha. |" in page
    assert "| `unbiased` | a test |" in page
    assert "Me, 2026." in page and "`egspo`" in page
    assert "Args:" not in page


def test_prose_and_sections_of_a_docstring_are_told_apart():
    doc = (
        "One.\n\nA list:\n- it stays\n\nArgs:\n    a: first.\n        goes on.\n\n"
        "Example:\n    >>> 1\n    1"
    )
    prose, parts = hooks.split_docstring(doc)
    assert prose == "One.\n\nA list:\n- it stays"
    assert parts == {"Args": "a: first.\n    goes on.", "Example": ">>> 1\n1"}


def test_bars_are_escaped_outside_code_only():
    assert hooks.table(["a"], [["x | y `p | q`"]]).splitlines()[-1] == "| x \\| y `p | q` |"


def test_the_first_source_keeps_its_equation():
    assert hooks.first_source("A et al., 2017, eq. 7 (arXiv:1707.06347). B, 2020.") == (
        "A et al., 2017, eq. 7 (arXiv:1707.06347)"
    )
    assert hooks.first_source("C et al., 1992, eq. 3. D, 1999.") == "C et al., 1992, eq. 3."
    assert hooks.first_source("") == ""


def test_every_kind_has_a_table_on_the_components_page():
    text = (DOCS / "components" / "index.md").read_text()
    assert re.findall(r"<!-- registry:(\w+) -->", text) == list(ZOO)


def test_every_marker_is_known():
    for page in DOCS.rglob("*.md"):
        for name, _ in hooks.MARKER.findall(page.read_text(encoding="utf-8")):
            assert name in {*hooks.TABLES, "methods", "staircase", "modules", "bench"}, (
                f"{page.name}: {name}"
            )


def test_every_section_of_a_recipe_has_a_table():
    from dllmzoo.recipe import sections

    text = (DOCS / "recipes.md").read_text()
    shown = set(re.findall(r"<!-- section:(\w+) -->", text))
    dataclasses = {
        name.lower()
        for name, value in vars(sections).items()
        if hasattr(value, "__pydantic_config__")
    }
    assert dataclasses and dataclasses <= shown


def test_the_site_loads_nothing_from_elsewhere():
    config = settings()
    assert config["strict"] is True
    assert config["theme"]["font"] is False
    for asset in config["extra_css"] + config["extra_javascript"]:
        assert (DOCS / asset).is_file()
    style = (DOCS / "assets" / "katex" / "katex.min.css").read_text()
    fonts = re.findall(r"url\(([^)]*)\)", style)
    assert fonts and all((DOCS / "assets" / "katex" / font).is_file() for font in fonts)


@pytest.mark.slow  # a whole build in a process of its own, which imports torch
def test_a_plug_in_gets_a_page_in_a_strict_build(tmp_path):
    """A process of its own: the build registers the plug-in."""
    source = next(b for b in blocks(DOCS / "extend.md") if b.title == "my_parts.py")
    (tmp_path / "my_parts.py").write_text(source.text, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Mine\n\n<!-- registry:loss -->\n")
    config = {
        "site_name": "mine",
        "strict": True,
        "theme": {"name": "material", "font": False},
        "plugins": [],
        "hooks": [str(DOCS / "hooks.py")],
        "extra": {"generator": False, "plugins": ["./my_parts.py"]},
        "markdown_extensions": ["tables", {"pymdownx.arithmatex": {"generic": True}}],
    }
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site/components/loss/tempered_reinforce/index.html").read_text()
    assert "capped and raised to a power" in page
    assert "<code>[0, 1]</code>" in page
    assert "in <code>my_parts.py</code>" in page
    index = (tmp_path / "site/index.html").read_text()
    assert 'href="components/loss/tempered_reinforce/"' in index
    assert not re.findall(r'<(?:script|link)[^>]+(?:src|href)="(?:https?:)?//', index + page)


def test_no_page_is_left_out_of_the_navigation():
    def pages(nav):
        for entry in nav:
            if isinstance(entry, str):
                yield entry
            elif isinstance(entry, dict):
                for value in entry.values():
                    yield from [value] if isinstance(value, str) else pages(value)

    assert set(pages(settings()["nav"])) == {
        path.relative_to(DOCS).as_posix() for path in Path(DOCS).rglob("*.md")
    }


@pytest.mark.parametrize("page", ["concepts.md", "recipes.md", "extend.md", "index.md"])
def test_pages_are_short(page):
    assert len((DOCS / page).read_text().splitlines()) <= 200
