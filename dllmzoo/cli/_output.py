"""What a command prints: wide and plain in a pipe, coloured and fitted in a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def is_main_process() -> bool:
    """Whether this process speaks for the run: rank 0, or the only one."""
    return int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0) == 0


def is_terminal() -> bool:
    """Whether somebody looks at standard output."""
    return sys.stdout.isatty()


def say(text: str = "", *, style: str | None = None) -> None:
    """One message to standard output, never cut; coloured in a terminal only."""
    if style and is_terminal():
        console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)
    else:
        sys.stdout.write(f"{text}\n")


def warn(text: str) -> None:
    """One message to standard error, never cut."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def say_json(value: Any) -> None:
    """A value as indented JSON to standard output; tuples become lists, paths text."""
    say(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def say_json_line(value: Any) -> None:
    """A value as one line of JSON."""
    say(json.dumps(value, ensure_ascii=False, default=str))


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Rows under headers; in a terminal all columns but the first wrap, elsewhere none."""
    if not is_terminal():
        sys.stdout.write(plain_table(headers, rows, title=title))
        return
    from rich import box
    from rich.table import Table

    grid = Table(
        title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False, show_header=any(headers),
    )  # fmt: skip
    for i, header in enumerate(headers):
        grid.add_column(header, style=None if i else "cyan", no_wrap=not i, overflow="fold")
    for row in rows:
        grid.add_row(*(escape(cell) for cell in row))
    console().print(grid)


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> str:
    """The table as text: columns two spaces apart, no line wrapped, no trailing blanks."""
    lines = [list(headers), *map(list, rows)] if any(headers) else [list(row) for row in rows]
    widths = [max(map(len, column), default=0) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "".join(f"{line}\n" for line in ([title] if title else []) + text)


def escape(text: str) -> str:
    """Text in which rich sees no markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(text)


def width() -> int:
    """Columns of the terminal."""
    return console().width


@cache
def console() -> Console:
    """The terminal on standard output."""
    from rich.console import Console

    return Console()


def flush() -> None:
    """Let a reader at the other end of a pipe see what was said."""
    sys.stdout.flush()
