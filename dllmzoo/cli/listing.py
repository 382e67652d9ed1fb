"""`dllmzoo list`: every component, recipe and card by name, without importing torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _kinds as kinds
from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app
from dllmzoo.errors import UnknownNameError

PLUGIN_HELP = "A file or module of your own components; may be repeated."


@app.command("list")
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            autocompletion=complete.every_kind,
            help=f"One of: {', '.join(kinds.ALL)}; or a pattern over all of them.",
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            autocompletion=complete.components,
            help="A name with wildcards (`*entropy*`), or a part of a name.",
        ),
    ] = None,
    plugin: Annotated[list[str] | None, typer.Option(help=PLUGIN_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List components, recipes and cards, each with one line on what it does."""
    load_plugins(plugin or ())
    if kind is not None and pattern is None and any(c in kind for c in "*?["):
        kind, pattern = None, kind
    chosen = kinds.ALL if kind is None else (kinds.find(kind),)
    found = {each: _matching(kinds.summaries(each), pattern) for each in chosen}
    if pattern is not None and not any(found.values()):
        names = sorted({name for each in chosen for name in kinds.summaries(each)})
        raise UnknownNameError(_no_match(kind, pattern, names))
    if as_json:
        rows = [
            {"kind": each, "name": name, "summary": line}
            for each, lines in found.items()
            for name, line in lines.items()
        ]
        out.say_json(rows)
        return
    shown = {each: lines for each, lines in found.items() if lines or kind is not None}
    for i, (each, lines) in enumerate(shown.items()):
        if i:
            out.say()
        out.say(kinds.plural(each), style="bold")
        out.table(("", ""), [(f"  {name}", line) for name, line in lines.items()])


def load_plugins(plugins: Iterable[str]) -> None:
    """Import the user's components; paths are relative to the current folder."""
    if plugins:
        from dllmzoo import plugins as user

        user.load_plugins(plugins, Path.cwd())


def _matching(lines: dict[str, str], pattern: str | None) -> dict[str, str]:
    if pattern is None:
        return lines
    wild = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    return {name: line for name, line in lines.items() if fnmatch.fnmatchcase(name, wild)}


def _no_match(kind: str | None, pattern: str, names: list[str]) -> str:
    what = "nothing" if kind is None else f"no {kinds.find(kind)}"
    return f"{what} matches {pattern!r}.{kinds.guess(pattern.strip('*?'), names, 3)}"
