"""Recipes as commands take them: words of the command line in, a checked recipe out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dllmzoo.recipe import Recipe

OVERRIDE = re.compile(r"[A-Za-z_][\w.]*=")

RECIPE_HELP = "A file, or the name of a packaged recipe (`dllmzoo list recipes`)."
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


def load_checked(
    source: str | Path, overrides: Sequence[str] = (), *, smoke: bool = False
) -> Recipe:
    """The recipe, once every check across its parts has passed.

    Raises:
        RecipeError: all problems at once.
    """
    from dllmzoo import checks

    return checks.load_checked(source, overrides, smoke=smoke)
