"""Recipes as commands take them: words of the command line in, a checked recipe out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.errors import UsageError

if TYPE_CHECKING:
    from dllmzoo.recipe import Recipe

OVERRIDE = re.compile(r"[A-Za-z_][\w.]*=")

ARGUMENT = typer.Argument(
    metavar="RECIPE", autocompletion=complete.recipes,
    help="A file, or the name of a packaged recipe (`dllmzoo list recipes`).",
)  # fmt: skip
"""The recipe of a command that takes one."""
INSTEAD = {
    "model": "name the model as the first word",
    "seed": "use --seed",
    "output": "use --output",
}
"""Section of a recipe -> how a command that answers takes it."""
OVERRIDES_HELP = "Changes to the recipe: `loss.clip_low=0.1 sampler=random_order`."


def is_override(word: str) -> bool:
    """Whether a word of the command line is `key=value` and no file."""
    return OVERRIDE.match(word) is not None and not Path(word).exists()


def split_words(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Recipes and overrides, each in their order."""
    recipes: list[str] = []
    overrides: list[str] = []
    for word in words:
        (overrides if is_override(word) else recipes).append(word)
    return recipes, overrides


def refuse_unread(changes: Iterable[str], command: str, read: Sequence[str]) -> None:
    """Refuse changes to what a command does not read, so that none is taken for granted.

    Args:
        changes: `key=value` each.
        command: for the message.
        read: sections of a recipe; `model.dtype` is read too.

    Raises:
        UsageError: names the first such change, and what to write instead.
    """
    for change in changes:
        key = change.partition("=")[0]
        section = key.partition(".")[0]
        if section not in read and key != "model.dtype":
            raise UsageError(
                f"{change} would change nothing: of a recipe `{command}` reads {', '.join(read)} "
                f"and model.dtype; {INSTEAD.get(section, 'leave it out')}"
            )


def load_checked(
    source: str | Path, overrides: Sequence[str] = (), *, smoke: bool = False
) -> Recipe:
    """The recipe, once every check across its parts has passed.

    Raises:
        RecipeError: all problems at once.
    """
    from dllmzoo import checks

    return checks.load_checked(source, overrides, smoke=smoke)
