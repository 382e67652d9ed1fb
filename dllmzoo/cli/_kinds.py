"""The kinds that `list` and `show` know: the eight registries, recipes and cards."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dllmzoo.errors import UnknownNameError
from dllmzoo.zoo import ZOO

COMPONENTS: tuple[str, ...] = tuple(ZOO)
CARDS: dict[str, tuple[str, ...]] = {
    "weights": ("weights", "models"),
    "method": ("methods",),
    "dataset": ("datasets",),
    "result": ("results",),
    "published": ("published",),
}
"""Kinds of cards and the folders of registry/ they are in: all that `model.weights` can name."""
ALL: tuple[str, ...] = (*COMPONENTS, "recipe", *CARDS)

_PLURALS = {"loss": "losses", "weights": "weights", "published": "published"}
_TITLE = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A recipe or a card.

    Args:
        name: what the user calls it.
        path: of its file.
        content: the YAML as plain values.
    """

    name: str
    path: Path
    content: dict[str, Any]


def plural(kind: str) -> str:
    """`losses` of `loss`."""
    return _PLURALS.get(kind, f"{kind}s")


WORDS: dict[str, str] = {word: kind for kind in ALL for word in (kind, plural(kind))}
"""Every word for a kind, singular or plural."""


def find(word: str) -> str:
    """The kind a user means by a singular or plural word.

    Raises:
        UnknownNameError: no such kind; names the nearest.
    """
    if word in WORDS:
        return WORDS[word]
    message = f"there is no kind {word!r}.{guess(word, WORDS)} The kinds are: {', '.join(ALL)}."
    raise UnknownNameError(message)


def find_component(word: str) -> str:
    """The kind of component a user means; recipes and cards are no components.

    Raises:
        UnknownNameError: no such kind of component.
    """
    kind = find(word)
    if kind not in ZOO:
        raise UnknownNameError(f"a {kind} is no component; the kinds are: {', '.join(COMPONENTS)}.")
    return kind


def guess(word: str, known: Iterable[str], count: int = 2) -> str:
    """` Did you mean 'x'?`, or nothing."""
    names = list(dict.fromkeys(known))  # several kinds may know one name
    close = difflib.get_close_matches(word, names, n=count, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def summaries(kind: str) -> dict[str, str]:
    """Name -> one line, of everything of a kind; imports no component."""
    if kind in ZOO:
        return ZOO[kind].summaries()
    if kind == "recipe":
        from dllmzoo.recipe.packaged import recipes

        return {name: _title(path) for name, path in recipes().items()}
    from dllmzoo import catalogue

    return {
        name: catalogue.summary(folder, name)
        for folder in CARDS[kind]
        for name in catalogue.names(folder)
    }


def entry(kind: str, name: str) -> Entry:
    """A recipe or a card.

    Raises:
        UnknownNameError: there is none of that name; names the nearest.
    """
    if kind == "recipe":
        from dllmzoo.recipe.document import parse
        from dllmzoo.recipe.packaged import recipe_path

        path = recipe_path(name)
        return Entry(name, path, parse(path.read_text(encoding="utf-8"), name).plain())
    from dllmzoo import catalogue

    for folder in CARDS[kind]:
        if name in catalogue.names(folder):
            return Entry(name, catalogue.path(folder, name), catalogue.card(folder, name))
    close = guess(name, summaries(kind))
    raise UnknownNameError(
        f"no {kind} card named {name!r}.{close} All are listed by: dllmzoo list {plural(kind)}"
    )


def _title(path: Path) -> str:
    """The `title:` of a recipe, read without parsing it."""
    found = _TITLE.search(path.read_text(encoding="utf-8"))
    return found[1].strip("'\"") if found else ""
