"""What the library knows of things outside its code: models, data sets, methods, results.

A card is a YAML file `registry/<kind>/<name>.yaml`, or `registry/weights/<name>/card.yaml` beside
weights that ship with the library. `null` says that a fact is not known.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dllmzoo.errors import RecipeError, UnknownNameError
from dllmzoo.recipe.packaged import data_folder, recipe_path, recipes

__all__ = [
    "CARDS", "DatasetCard", "MethodCard", "ModelCard", "PublishedCard", "ResultCard", "WeightsCard",
    "card", "cards", "names", "path", "recipe_path", "recipes", "summary", "weights_card",
    "weights_folder",
]  # fmt: skip


@dataclass(frozen=True)
class ModelCard:
    """A public checkpoint.

    Args:
        name: kebab-case; what `model.weights` may say.
        title: one line.
        family: registered model that reads it.
        hub_id: repository on the hub.
        revision: commit; null takes the newest.
        licence: as its repository states it.
        parameters: weights.
        vocab_size: rows of the embedding.
        max_sequence_length: tokens.
        mask_token_id: id that stands for a hidden token.
        eos_token_id: id of end of text.
        pad_token_id: id under padding.
        stop_ids: ids that end an answer.
        mask_token: how the tokenizer spells the mask.
        config: further fields of its config.json, for a dry run without the checkpoint.
        paper: citation with its arXiv number.
        notes: what to know before using it.
    """

    name: str
    title: str
    family: str
    hub_id: str | None = None
    revision: str | None = None
    licence: str | None = None
    parameters: int | None = None
    vocab_size: int | None = None
    max_sequence_length: int | None = None
    mask_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None
    stop_ids: tuple[int, ...] = ()
    mask_token: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    paper: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class WeightsCard:
    """Weights that ship with the library.

    Args:
        name: kebab-case, its folder; what `model.weights` may say.
        title: one line.
        family: registered model that reads them.
        licence: of the weights.
        parameters: weights.
        commands: that made them, in order.
        recipes: that the commands run.
        seed: of the last command.
        minutes: wall time of all commands, on `machine`.
        machine: cores or device.
        data: how the data were made.
        scores: metric -> value in [0, 1], as `eval/...` in metrics.jsonl.
        before: weights from before an ability was taken away on purpose; a name of a card.
        notes: what to know before using them.
    """

    name: str
    title: str
    family: str
    licence: str
    parameters: int | None = None
    commands: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    seed: int | None = None
    minutes: float | None = None
    machine: str | None = None
    data: str | None = None
    scores: dict[str, float] = field(default_factory=dict)
    before: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MethodCard:
    """A published method, and how ours relates to it.

    Args:
        name: kebab-case; the `method:` of recipes.
        title: one line.
        paper: citation.
        arxiv: number.
        repository: of the authors' release.
        summary: what the method is about, in a sentence or two.
        equation: what it minimises, as LaTeX.
        sockets: kind -> how its component is used, a sentence.
        parts: kind -> components that make up the method.
        recipes: shipped ones that follow it.
        same: what ours does exactly as the paper or the release.
        differs: what it does otherwise, and why.
        published: the authors' numbers, percent: task and metric -> value.
        published_model: that they were measured on.
        published_source: where they were read.
    """

    name: str
    title: str
    paper: str
    arxiv: str | None = None
    repository: str | None = None
    summary: str = ""
    equation: str = ""
    sockets: dict[str, str] = field(default_factory=dict)
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    recipes: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    published: dict[str, float | None] = field(default_factory=dict)
    published_model: str | None = None
    published_source: str | None = None


@dataclass(frozen=True)
class DatasetCard:
    """Data that a task reads or makes.

    Args:
        name: kebab-case.
        title: one line.
        task: registered task that uses it.
        origin: `generated`, a hub id, or where a file comes from.
        revision: of a hub id.
        licence: of the data.
        columns: that a file has.
        train: examples; null = as many as are drawn, or not known.
        test: examples.
        paper: citation.
        facts: what was counted or checked.
    """

    name: str
    title: str
    task: str
    origin: str
    revision: str | None = None
    licence: str | None = None
    columns: tuple[str, ...] = ()
    train: int | None = None
    test: int | None = None
    paper: str | None = None
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResultCard:
    """A table that we measured, with the command that makes it again.

    Args:
        name: kebab-case.
        title: one line: what was measured.
        command: that made it.
        recipes: shipped ones that the command runs.
        machine: cores or device.
        minutes: wall time of the command.
        version: of the library.
        seeds: that were run.
        columns: heads of the table.
        rows: cells, as many as there are columns.
        verdicts: what the numbers say, a sentence each; also where a claim does not show.
        figure: file in docs/assets/results/.
        notes: caveats.
    """

    name: str
    title: str
    command: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    recipes: tuple[str, ...] = ()
    machine: str | None = None
    minutes: float | None = None
    version: str | None = None
    seeds: tuple[int, ...] = ()
    verdicts: tuple[str, ...] = ()
    figure: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedCard:
    """A table of numbers that others report; nothing of it was made here.

    Args:
        name: kebab-case.
        title: one line: whose numbers of what.
        setting: how they were measured, as far as it is known.
        columns: heads of the table, the first two `method` and `model`, the last `read in`.
        rows: cells, as many as there are columns; numbers are percent; null = not reported. A
            method is a card of registry/methods where there is one, or `untrained`. `read in`
            says whose text has the numbers: `authors`, `authors of NAME`, a `third party`, whose
            reading may be wrong, or `sources differ`, which a note explains.
        paper: citation of who reports.
        notes: what to know before comparing with other tables.
    """

    name: str
    title: str
    setting: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    paper: str | None = None
    notes: tuple[str, ...] = ()


Card = ModelCard | WeightsCard | MethodCard | DatasetCard | ResultCard | PublishedCard

CARDS: dict[str, type[Card]] = {
    "models": ModelCard,
    "weights": WeightsCard,
    "datasets": DatasetCard,
    "methods": MethodCard,
    "results": ResultCard,
    "published": PublishedCard,
}
"""Kind of card -> what it holds. What others report lies apart, in registry/results/published/."""

PLACES = {"published": "results/published"}
"""Kinds whose folder of registry/ bears another name."""


def names(kind: str) -> tuple[str, ...]:
    """Names of the cards of a kind, sorted; nothing is parsed."""
    return tuple(_files(kind))


def path(kind: str, name: str) -> Path:
    """The file of a card.

    Raises:
        UnknownNameError: there is no such card; suggests the nearest.
    """
    files = _files(kind)
    if name in files:
        return files[name]
    close = difflib.get_close_matches(name, files, n=2, cutoff=0.5)
    guess = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise UnknownNameError(
        f"no card {name!r} in registry/{kind}.{guess} There are: {', '.join(files) or 'none'}."
    )


def card(kind: str, name: str) -> dict[str, Any]:
    """A card as plain values, every field of its kind written out.

    Raises:
        UnknownNameError: there is no such card.
        RecipeError: all problems of the file.
    """
    return asdict(_read(kind, path(kind, name)))


def cards(kind: str) -> list[Any]:
    """Every card of a kind, by name, as `CARDS` says.

    Raises:
        RecipeError: all problems of the first file that has some.
    """
    return [_read(kind, file) for file in _files(kind).values()]


def summary(kind: str, name: str) -> str:
    """The title of a card, without parsing it."""
    found = re.search(r"^title:[ \t]*(.+?)[ \t]*$", path(kind, name).read_text("utf-8"), re.M)
    return found[1].strip("'\"") if found else ""


def weights_folder(name: str) -> Path | None:
    """The folder of weights that ship with the library; None if there are none of that name."""
    file = _files("weights").get(name)
    return None if file is None else file.parent


def weights_card(spec: str | Path | None) -> WeightsCard | None:
    """The card of shipped weights, by name or folder; None for all other weights."""
    if spec is None:
        return None
    file = _files("weights").get(str(spec)) or Path(spec) / "card.yaml"
    if not os.path.isfile(file):
        return None
    found = _read("weights", file)
    return found


def _files(kind: str) -> dict[str, Path]:
    if kind not in CARDS:
        raise UnknownNameError(f"no kind of card {kind!r}; there are: {', '.join(CARDS)}")
    folder = data_folder("registry") / PLACES.get(kind, kind)
    if kind == "weights":
        return {file.parent.name: file for file in sorted(folder.glob("*/card.yaml"))}
    return {file.stem: file for file in sorted(folder.glob("*.yaml"), key=lambda file: file.stem)}


def _read(kind: str, file: Path) -> Any:
    from dllmzoo.recipe._explain import in_order
    from dllmzoo.recipe.build import fill
    from dllmzoo.recipe.document import read

    problems: list[Any] = []
    node = read(file)
    made = fill(_checked(CARDS[kind]), node, (), problems, f"a card of {kind}")
    if problems:
        raise RecipeError(in_order(problems))
    return made


@cache
def _checked(cls: Any) -> Any:
    """The dataclass with its fields checked; pydantic is imported when a card is read."""
    from pydantic import ConfigDict
    from pydantic.dataclasses import dataclass as checked

    return checked(cls, frozen=True, config=ConfigDict(extra="forbid", strict=True))
