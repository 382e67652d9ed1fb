"""Results kept: a table becomes a card of the catalogue, its figure a picture of the docs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import dllmzoo
from dllmzoo.catalogue import ResultCard
from dllmzoo.errors import UsageError
from dllmzoo.recipe.packaged import data_folder

NAME = re.compile(r"[a-z0-9]+([-.][a-z0-9]+)*")


def refuse_card(name: str, root: Path | None = None) -> None:
    """Raise if no card of that name could be written, before anything is run.

    Args:
        name: of the card.
        root: of the checkout; None = where this library lies.

    Raises:
        UsageError: the name is not kebab-case, or the library is installed without its docs.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"a card cannot be named {name!r}: use kebab-case, say tiny-comparison")
    root = root or data_folder("registry").parent
    if not (root / "docs").is_dir() or not (root / "registry").is_dir():
        raise UsageError(f"--card writes into a checkout of dllmzoo; {root} is none")


def result_card(
    name: str,
    title: str,
    command: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    recipes: Sequence[str] = (),
    seeds: Sequence[int] = (),
    minutes: float | None = None,
    verdicts: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> ResultCard:
    """A card of a table, with this machine and version noted.

    Args:
        name: kebab-case.
        title: one line.
        command: that made the table.
        headers: of the table.
        rows: of the table.
        recipes: that were run; those that are not shipped are left out.
        seeds: that were run.
        minutes: wall time of the command.
        verdicts: sentences.
        notes: caveats.
    """
    from dllmzoo.recipe.packaged import recipes as shipped

    known = {str(path.resolve()): each for each, path in shipped().items()}
    named = (known.get(str(Path(r).resolve())) or (r if r in shipped() else None) for r in recipes)
    return ResultCard(
        name=name, title=title, command=command, columns=tuple(headers),
        rows=tuple(map(tuple, rows)), recipes=tuple(r for r in named if r), machine=machine(),
        minutes=None if minutes is None else round(minutes, 1), version=dllmzoo.__version__,
        seeds=tuple(seeds), verdicts=tuple(verdicts), notes=tuple(notes),
    )  # fmt: skip


def write_card(card: ResultCard, figure: Path | None = None, root: Path | None = None) -> Path:
    """Write `registry/results/NAME.yaml`, and the figure to `docs/assets/results/NAME.svg`.

    Args:
        card: what was measured.
        figure: an SVG file that is copied; the card then names it.
        root: of the checkout; None = where this library lies.

    Raises:
        UsageError: there is no checkout to write to.
    """
    import yaml

    from dllmzoo.training.files import write_bytes

    refuse_card(card.name, root)
    root = root or data_folder("registry").parent
    fields = {key: value for key, value in asdict(card).items() if value not in (None, ())}
    if figure is not None:
        fields["figure"] = f"{card.name}.svg"
        place = root / "docs" / "assets" / "results" / fields["figure"]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(figure, place)

    class Dumper(yaml.SafeDumper):
        """Numbers that are text stay text, whatever a reader takes for a number."""

    Dumper.add_representer(
        _Number, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "'")
    )
    plain = {key: _plain(value) for key, value in fields.items()}
    text = yaml.dump(
        plain, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=98,
        default_flow_style=None,
    )  # fmt: skip
    file = root / "registry" / "results" / f"{card.name}.yaml"
    write_bytes(file, text.encode())
    return file


def machine() -> str:
    """The device, or the number of cores, as a reader wants to know it."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} CPU cores"


class _Number(str):
    """Text that reads as a number."""


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"[-+]?[\d._]+([eE][-+]?\d+)?", value):
        return _Number(value)
    return value
