"""Links of the documentation lead to files and headings; addresses are ones that can be."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from markdown.extensions.toc import slugify

from dllmzoo import ZOO
from dllmzoo.catalogue import cards
from tests.docs.blocks import FENCE, PAGES, PROJECT

DOCS = PROJECT / "docs"
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\]+")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.M)
INLINE = re.compile(r"(`+)(?!`).*?\1", re.S)
ADDRESSED = [*PAGES, *sorted((PROJECT / "registry").rglob("*.yaml")), PROJECT / "pyproject.toml"]


def prose(page: Path) -> str:
    """A page without its code: links in examples are not links."""
    return INLINE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))


def links(page: Path) -> list[str]:
    return LINK.findall(prose(page))


def inside(page: Path) -> list[str]:
    return [link for link in links(page) if not urlsplit(link).scheme]


def generated() -> set[str]:
    """Pages that hooks make: of components, methods and notebooks."""
    made = {f"components/{kind}/{name}.md" for kind in ZOO for name in ZOO[kind].names()}
    made |= {f"methods/{card.name}.md" for card in cards("methods")}
    return made | {f"notebooks/{path.stem}.md" for path in DOCS.glob("notebooks/*.ipynb")}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's own headings, as the site names them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        name = slugify(heading.replace("`", ""), "-")
        number = 1
        while name in found:
            name = f"{re.sub('_[0-9]+$', '', name)}_{number}"
            number += 1
        found.add(name)
    return found


def trouble(page: Path, link: str, made: set[str]) -> str | None:
    """Why a link inside the project leads nowhere; None if it leads somewhere."""
    target, _, anchor = link.partition("#")
    path = (page.parent / target).resolve() if target else page
    if path.is_relative_to(DOCS) and path.relative_to(DOCS).as_posix() in made:
        return None  # its headings are made with it: the strict build looks at them
    if not path.exists():
        return f"{link}: there is no {target}"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        whole = "<!-- " in path.read_text(encoding="utf-8")
        return None if whole else f"{link}: no heading makes {anchor!r}"
    return None


def malformed(address: str) -> bool:
    """Whether a text that begins as an address cannot be one."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if host in ("localhost", "127.0.0.1"):
        return False
    named = re.fullmatch(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}", host)
    return not named or "//" in parts.path or parts.scheme != "https"


def test_there_are_links_of_both_kinds():
    assert sum(len(inside(page)) for page in PAGES) > 80
    assert sum(len(ADDRESS.findall(p.read_text(encoding="utf-8"))) for p in ADDRESSED) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_inside_lead_to_files_and_headings(page):
    made = generated()
    assert not [said for link in inside(page) if (said := trouble(page, link, made))]


@pytest.mark.parametrize("file", ADDRESSED, ids=lambda file: file.relative_to(PROJECT).as_posix())
def test_addresses_outside_are_well_formed(file):
    found = [address.rstrip(".,;:)") for address in ADDRESS.findall(file.read_text("utf-8"))]
    assert not [address for address in found if malformed(address)]


def test_broken_links_are_found(tmp_path):
    page, other = tmp_path / "a.md", tmp_path / "b.md"
    page.write_text("# A\n\n[b](b.md#two-words) [c](c.md) [b](b.md#three) `[no](link.md)`\n")
    other.write_text("# B\n\n## Two `words`\n")
    assert inside(page) == ["b.md#two-words", "c.md", "b.md#three"]
    assert [trouble(page, link, set()) for link in inside(page)] == [
        None, "c.md: there is no c.md", "b.md#three: no heading makes 'three'",
    ]  # fmt: skip
    assert malformed("https://arxiv") and malformed("http://arxiv.org") and malformed("https:///a")
    assert not malformed("https://arxiv.org/abs/2603.12554")


def test_the_build_looks_at_anchors_of_generated_pages_too():
    config = yaml.safe_load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert config["strict"] is True
    checked = config["validation"]["links"]
    assert set(checked.values()) == {"warn"}
    assert {"anchors", "absolute_links", "unrecognized_links"} <= set(checked)
    assert "search" in config["plugins"]
