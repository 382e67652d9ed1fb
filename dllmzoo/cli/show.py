"""`dllmzoo show`: everything there is to know about one component, recipe, card or run."""

from __future__ import annotations

import re
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _kinds as kinds
from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app
from dllmzoo.cli._run_picture import show_run
from dllmzoo.cli.listing import PLUGIN_HELP, load_plugins
from dllmzoo.errors import UnknownNameError, UsageError
from dllmzoo.zoo import ZOO

if TYPE_CHECKING:
    from dllmzoo.describe import Info

_SECTION = re.compile(r"^(?:Args|References|Raises):\n(?:[ \t]+.*\n?|\n)*", re.MULTILINE)


@app.command("show")
def show_one(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", autocompletion=complete.words,
            help=f"One of: {', '.join((*kinds.ALL, complete.RUN))}; may be left out.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", autocompletion=complete.components,
            help="Of the component, recipe or card; the folder of a run.",
        ),
    ] = None,
    plugin: Annotated[list[str] | None, typer.Option(help=PLUGIN_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:  # fmt: skip
    """Show a component (parameters, paper, file, users), a recipe, a card, or a run in brief."""
    load_plugins(plugin or ())
    if (run := run_named(kind, name)) is not None:
        show_run(run, as_json=as_json)
        return
    if name is None:
        kind, name = search(kind)
    else:
        kind = kinds.find(kind)
    if kind in ZOO:
        show_component(kind, name, as_json=as_json)
    else:
        show_entry(kind, name, as_json=as_json)


def run_named(kind: str, name: str | None) -> Path | None:
    """The folder that is asked for, by `run DIR` or by a folder that holds a run; else None."""
    from dllmzoo.report.folders import is_run

    if name is not None:
        return Path(name) if kind == complete.RUN else None
    return Path(kind) if is_run(Path(kind)) else None


def search(name: str) -> tuple[str, str]:
    """The only kind that knows a name.

    Raises:
        UnknownNameError: no kind knows it.
        UsageError: several kinds do, or the name is a kind.
    """
    holders = [kind for kind in kinds.ALL if name in kinds.summaries(kind)]
    holders = holders or [kind for kind in kinds.COMPONENTS if name in ZOO[kind].aliases()]
    if len(holders) == 1:
        return holders[0], name
    if holders:
        choices = " or ".join(f"dllmzoo show {kind} {name}" for kind in holders)
        raise UsageError(f"{name!r} is the name of several things; say which: {choices}")
    if name == complete.RUN:
        raise UsageError("which run? Give its folder: dllmzoo show run DIR")
    if name in kinds.WORDS:
        kind = kinds.find(name)
        raise UsageError(f"which {kind}? Try: dllmzoo list {kind}")
    known = [each for kind in kinds.ALL for each in kinds.summaries(kind)]
    close = kinds.guess(name, known)
    raise UnknownNameError(f"nothing is called {name!r}.{close} Try: dllmzoo list")


def show_component(kind: str, name: str, *, as_json: bool) -> None:
    """A component, read off its class."""
    info = ZOO[kind].describe(name)
    users = recipes_using(kind, info.name, info.aliases)
    if as_json:
        out.say_json({**asdict(info), "location": location(info), "recipes": users})
        return
    out.say(f"{kind} {info.name}", style="bold")
    out.say(description(info))
    out.say()
    if info.parameters:
        show_parameters(info)
        out.say()
    facts = {
        "aliases": ", ".join(info.aliases),
        "paper": info.references,
        "file": location(info),
        "recipes": ", ".join(users),
    }
    for label, text in facts.items():
        out.say(f"{label.ljust(8)} {text or 'none'}")
    for law, reason in info.exempt.items():
        out.say(f"exempt from the law {law}: {reason}")


def show_parameters(info: Info) -> None:
    """A table where lines may be long; in a terminal, the meaning under each parameter."""
    if not out.is_fitted():
        headers = ("parameter", "type", "range", "default", "meaning")
        rows = [(p.name, p.type, p.range, p.default, p.meaning) for p in info.parameters]
        out.table(headers, rows)
        return
    for p in info.parameters:
        facts = [p.type, p.range, p.default if p.default == "required" else f"default {p.default}"]
        out.say(f"{p.name}  ({'; '.join(filter(None, facts))})", style="cyan")
        out.say(textwrap.indent(textwrap.fill(p.meaning, out.width() - 4), "    "))


def show_entry(kind: str, name: str, *, as_json: bool) -> None:
    """A recipe or a card, as it is written."""
    entry = kinds.entry(kind, name)
    if as_json:
        out.say_json(entry.content)
        return
    out.say(f"# {kind} {entry.name}", style="bold")  # a comment: what follows is YAML
    out.say(f"# {shown_path(entry.path)}")
    out.say()
    out.say(entry.path.read_text(encoding="utf-8").rstrip("\n"))


def description(info: Info) -> str:
    """The docstring without the sections that are shown on their own."""
    return _SECTION.sub("", info.doc).strip()


def location(info: Info) -> str:
    """`file:line` of a component, relative to the current folder where it lies below it."""
    path, colon, line = info.location.rpartition(":")
    return f"{shown_path(Path(path))}{colon}{line}" if colon else info.location


def shown_path(path: Path) -> str:
    """A path as short as it can be from the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def recipes_using(kind: str, name: str, aliases: tuple[str, ...]) -> list[str]:
    """Names of the shipped recipes that name a component, nested or not."""
    names = {name, *aliases}
    found = [kinds.entry("recipe", each) for each in kinds.summaries("recipe")]
    return [each.name for each in found if _mentions(each.content, kind, names)]


def _mentions(tree: Any, kind: str, names: set[str], *, inside: bool = False) -> bool:
    """Whether a part of the kind has one of the names; `inside`: the tree is such a part."""
    if isinstance(tree, list | tuple):
        return any(_mentions(value, kind, names) for value in tree)
    if not isinstance(tree, dict):
        return False
    keys = {kind, "commits"} if kind == "schedule" else {kind}
    keys |= {"inner"} if inside else set()
    for key, value in tree.items():
        if key == "optimizer":  # its schedule is one of learning rates
            continue
        found = value.get("name") if isinstance(value, dict) else value
        if key in keys and isinstance(found, str) and found in names:
            return True
        if _mentions(value, kind, names, inside=key in keys):
            return True
    return False
