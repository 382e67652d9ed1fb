"""The API reference without gaps: `<!-- modules:training -->` stands for a package's modules.

Every public module of the package `dllmzoo.training` that the page does not name itself is put
there, in alphabetical order, packages inside it too. A new module needs no line anywhere.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
MARKER = re.compile(r"^<!-- modules:([\w.]+) -->$", re.MULTILINE)
NAMED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return expanded(markdown)


def expanded(markdown: str) -> str:
    """The text of a page, its markers replaced by a block for each module."""
    named = set(NAMED.findall(markdown))

    def replace(found: re.Match[str]) -> str:
        modules = [name for name in public_modules(f"dllmzoo.{found[1]}") if name not in named]
        if not modules:
            raise ValueError(f"{found[0]}: there is no public module, or the page names them all")
        return "\n\n".join(map(_block, modules))

    return MARKER.sub(replace, markdown)


def public_modules(package: str) -> Iterator[str]:
    """A package and every module in it, at any depth, whose path holds no leading underscore."""
    folder = ROOT.joinpath(*package.split("."))
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts)


def _block(name: str) -> str:
    """A package shows its own words only: what it hands on stands with its module."""
    own = "\n    options:\n      members: false"
    return f"::: {name}" + (own if ROOT.joinpath(*name.split(".")).is_dir() else "")
