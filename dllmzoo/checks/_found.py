"""A list of problems that knows where the keys of a recipe stand."""

from __future__ import annotations

import re

from dllmzoo.errors import Problem
from dllmzoo.recipe._explain import in_order
from dllmzoo.recipe.recipe import Recipe


class Found:
    """Problems of one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        """Nothing found yet."""
        self.recipe = recipe
        self.problems: list[Problem] = []

    def add(self, path: str, message: str, hint: str = "") -> None:
        """A problem at a dotted key, or at the nearest key above it that is written."""
        self.problems.append(Problem(self.recipe.where(*path.split(".")), path, message, hint))

    def quote(self, path: str, message: str) -> None:
        """A problem in a part's own words, at the first of its keys that they name."""
        keys = self.recipe.document.find(*path.split(".")).children
        for word in re.findall(r"\w+", message):
            if word in keys:
                return self.add(f"{path}.{word}", message)
        self.add(path, message)

    def in_order(self) -> list[Problem]:
        """Each problem once, in the order of the text."""
        return in_order(self.problems)
