"""Results of the laboratory kept: JSON, figures, and cards of the catalogue."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllmzoo.cli import _output as out

if TYPE_CHECKING:
    import typer


def refuse(card: str | None) -> None:
    """Raise before anything is run if the card could not be written."""
    if card is not None:
        from dllmzoo.lab.card import refuse_card

        refuse_card(card)


def folder(path: Path) -> None:
    """Make the folder of a result before anything is measured.

    Raises:
        UsageError: it cannot be made.
    """
    from dllmzoo.errors import UsageError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output {path} cannot be made: {error.strerror}") from error


def command(ctx: typer.Context) -> str:
    """What the user typed."""
    return shlex.join(["dllmzoo", *(ctx.find_root().obj or ())])


def write(file: Path, value: Any) -> None:
    """A JSON file, whole or not at all."""
    from dllmzoo.training.files import write_json

    write_json(file, value)


def draw(study: Any, result: Any, path: Path) -> list[Path]:
    """The figures of a result, or a note that they cannot be drawn here."""
    from dllmzoo.lab.figure import available

    if not available():
        out.warn("no figure was drawn: it needs matplotlib (pip install matplotlib)")
        return []
    return [path for path in study.plot(result, path) or () if path.suffix == ".svg"]


def cards(
    name: str, command: str, tables: Mapping[str, Any], figures: Mapping[str, Path], *,
    verdicts: Sequence[str], minutes: float | None, notes: Sequence[str] = (), **shared: Any,
) -> None:  # fmt: skip
    """A card for each table, `NAME` and `NAME-TABLE`; the first has verdicts, time and notes.

    Args:
        name: of the first card.
        command: that made the tables.
        tables: by a word for each.
        figures: of tables, by the same words.
        verdicts: sentences.
        minutes: of the command.
        notes: caveats.
        shared: facts of all cards: recipes, seeds.
    """
    from dllmzoo.lab.card import result_card, write_card

    for i, (word, (headers, rows, title)) in enumerate(tables.items()):
        facts = {} if i else {"verdicts": verdicts, "minutes": minutes, "notes": notes}
        card = result_card(
            f"{name}-{word}" if i else name, title or word, command, headers, rows, **shared,
            **facts,
        )  # fmt: skip
        out.warn(f"wrote {write_card(card, figures.get(word))}")
