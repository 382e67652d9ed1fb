"""What a shell may complete: recipes, components, cards, folders of runs; imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import typer

from dllmzoo.cli import _kinds as kinds

RUN = "run"
"""The word of `show` for a run folder."""
DEEPEST = 3
"""Levels of folders below `runs/` in which runs are looked for: those of sweeps and labs."""


def recipes(incomplete: str) -> list[str]:
    """Packaged recipes and YAML files."""
    return _starting(incomplete, chain(names("recipe"), files(incomplete, ".yaml", ".yml")))


def components(ctx: typer.Context, incomplete: str) -> list[str]:
    """What the word before names: components or cards of its kind, or run folders."""
    kind = str(ctx.params.get("kind") or "")
    if kind == RUN:
        return runs(incomplete)
    known = names(kinds.WORDS[kind]) if kind in kinds.WORDS else ()
    return _starting(incomplete, known)


def words(incomplete: str) -> list[str]:
    """Kinds, and the names of all kinds: what may follow `show`."""
    every = chain.from_iterable(names(kind) for kind in kinds.ALL)
    return _starting(incomplete, chain(kinds.ALL, [RUN], every))


def every_kind(incomplete: str) -> list[str]:
    """Kinds that can be listed."""
    return _starting(incomplete, kinds.ALL)


def component_kinds(incomplete: str) -> list[str]:
    """Kinds of components."""
    return _starting(incomplete, kinds.COMPONENTS)


def runs(incomplete: str) -> list[str]:
    """Folders of runs."""
    return _starting(incomplete, run_folders(incomplete))


def reported(incomplete: str) -> list[str]:
    """Folders of runs, folders and files of labs, result cards."""
    found = chain(run_folders(incomplete), files(incomplete, ".json"), names("result"))
    return _starting(incomplete, found)


def policies(incomplete: str) -> list[str]:
    """What can answer: runs, weights and models of the catalogue, folders."""
    found = chain(run_folders(incomplete), names("weights"), files(incomplete))
    return _starting(incomplete, found)


def pulled(incomplete: str) -> list[str]:
    """Cards of models and data sets."""
    from dllmzoo import catalogue

    return _starting(incomplete, chain(catalogue.names("models"), names("dataset")))


def gpus(incomplete: str) -> list[str]:
    """Kinds of GPU."""
    from dllmzoo.training.gpus import GPUS

    return _starting(incomplete, GPUS)


def names(kind: str) -> Iterable[str]:
    """Names of a kind of component, recipe or card; nothing is imported or parsed."""
    from dllmzoo import catalogue
    from dllmzoo.recipe.packaged import recipes as packaged
    from dllmzoo.zoo import ZOO

    if kind in ZOO:
        return ZOO[kind].names()
    if kind == "recipe":
        return packaged()
    return chain.from_iterable(catalogue.names(folder) for folder in kinds.CARDS[kind])


def files(incomplete: str, *endings: str) -> Iterator[str]:
    """Files of these endings, and folders with a slash, in the folder that was typed so far."""
    typed = _typed(incomplete)
    for path in _children(Path(typed)):
        if path.is_dir():
            yield f"{typed}{path.name}/"
        elif path.suffix in endings:
            yield f"{typed}{path.name}"


def run_folders(incomplete: str) -> Iterator[str]:
    """Run folders in the folder that was typed so far and below; in `runs/` if none was."""
    return _runs_below(_typed(incomplete) or "runs/", DEEPEST)


def _runs_below(folder: str, depth: int) -> Iterator[str]:
    from dllmzoo.report.folders import is_run

    for path in _children(Path(folder)):
        if path.is_dir() and is_run(path):
            yield f"{folder}{path.name}"
        elif path.is_dir() and depth > 1:
            yield from _runs_below(f"{folder}{path.name}/", depth - 1)


def _typed(incomplete: str) -> str:
    """The folder part of what was typed, with its slash; nothing if there is none."""
    return "".join(incomplete.rpartition("/")[:2])


def _children(folder: Path) -> list[Path]:
    """What is in a folder, hidden things left out; nothing if it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _starting(incomplete: str, found: Iterable[str]) -> list[str]:
    """Those that go on from what was typed; a folder that is a run stands there once."""
    kept: dict[str, str] = {}
    for word in found:
        if word.startswith(incomplete):
            kept.setdefault(word.rstrip("/"), word)
    return list(kept.values())
