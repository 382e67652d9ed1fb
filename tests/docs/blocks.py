"""Fenced code blocks of the documentation, with the lines they stand on."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGES = sorted([PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *PROJECT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(?P<language>\w+)(?P<head>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its file name if it has a title, its first line."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(PROJECT).as_posix()}:{self.line}"

    def commands(self) -> list[list[str]]:
        """The words of each `$ ...` command of a console block, without its comment."""
        text = self.text.replace("\\\n", "")
        lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        return [shlex.split(line, comments=True) for line in lines]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["head"])
        line = text.count("\n", 0, match.start("text")) + 1
        found.append(
            Block(page, line, match["language"], title and title[1], match["text"])  # type: ignore[arg-type]
        )
    return found
