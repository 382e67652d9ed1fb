"""What a command prints: wide and plain in a pipe, coloured and fitted in a terminal.

Colours are for terminals. NO_COLOR, set to anything, turns them off there too; FORCE_COLOR asks
for them, and for the layout of a terminal, in pipes and files.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
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


def is_coloured() -> bool:
    """Whether colours and bold letters are welcome on standard output."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_fitted()


def is_fitted() -> bool:
    """Whether lines are laid out for the width of a terminal: there, or where FORCE_COLOR asks."""
    return is_terminal() or bool(os.environ.get("FORCE_COLOR"))


def say(text: str = "", *, style: str | None = None) -> None:
    """One message to standard output, never cut; coloured in a terminal only."""
    if style and is_coloured():
        console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)
    else:
        sys.stdout.write(f"{text}\n")


def warn(text: str) -> None:
    """One message to standard error, never cut."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def to_stderr() -> AbstractContextManager[object]:
    """Inside the block what anything prints to standard output goes to standard error."""
    return redirect_stdout(sys.stderr)


def say_json(value: Any) -> None:
    """A value as indented JSON to standard output; tuples become lists, paths text."""
    say(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def say_json_line(value: Any) -> None:
    """A value as one line of JSON."""
    say(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON has it: null for what is not finite, text for what JSON does not know."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, str | int) else str(value)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Rows under headers; in a terminal all columns but the first wrap, elsewhere none."""
    if not is_fitted():
        sys.stdout.write(plain_table(headers, rows, title=title))
        return
    from rich import box
    from rich.table import Table

    grid = Table(
        title=title or None, title_justify="left", title_style=_style("bold"), box=box.SIMPLE_HEAD,
        pad_edge=False, show_header=any(headers), header_style=_style("bold"),
    )  # fmt: skip
    for i, header in enumerate(headers):
        style = "" if i else _style("cyan")
        grid.add_column(header, style=style, no_wrap=not i, overflow="fold")
    for row in rows:
        grid.add_row(*(escape(cell) for cell in row))
    console().print(grid)


def _style(wanted: str) -> str:
    """The style where colours are welcome, else none."""
    return wanted if is_coloured() else ""


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
