"""A list of problems that knows where the keys of a recipe stand."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dllmzoo.errors import Problem
from dllmzoo.recipe._explain import in_order
from dllmzoo.recipe.recipe import Recipe


class Found:
    """Problems of one recipe.

    Args:
        recipe: as far as it could be built.
        known: problems of single keys, found before; nothing is concluded from those keys.
    """

    def __init__(self, recipe: Recipe, known: Sequence[Problem] = ()) -> None:
        """Nothing found yet."""
        self.recipe = recipe
        self.known = {problem.path for problem in known}
        self.problems: list[Problem] = []

    def sound(self, *paths: str) -> bool:
        """Whether nothing is wrong with any of these keys, nor with what they are part of."""
        for path in paths:
            steps = path.split(".")
            above = {".".join(steps[:i]) for i in range(1, len(steps) + 1)}
            if self.known & (above | {f"{steps[0]}.name"}):
                return False
            written = self.recipe.document.children.get(steps[0])
            unbuilt = getattr(self.recipe, steps[0], None) is None
            if unbuilt and written is not None and written.value is not None:
                return False
        return True

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
