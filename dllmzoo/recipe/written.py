"""A recipe with every default written out, and how two recipes differ."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from dllmzoo.recipe.plain import options_of, plain_part, plain_value
from dllmzoo.recipe.recipe import FORMAT, KEYS, PARTS, SECTIONS, Recipe

NO_DIFFERENCE = ("title", "method", "smoke")
"""Keys that do not change what a run computes."""


def resolved(recipe: Recipe) -> dict[str, Any]:
    """Every default written out, as mappings, lists and scalars; loads to an equal recipe."""
    plain: dict[str, Any] = {"format": FORMAT}
    for key in KEYS[1:]:
        value = getattr(recipe, key)
        if key in PARTS:
            plain[key] = _part(recipe, key)
        elif key == "model" or key in SECTIONS:
            plain[key] = options_of(value)
        else:
            plain[key] = plain_value(value)
    return plain


def difference(one: Recipe, other: Recipe) -> list[str]:
    """Dotted keys whose values differ, defaults included: `loss.clip_low`, `selector.name`.

    Title, method card and smoke block are left out; plug-in files are compared by name, so that
    a run may go on in another folder.
    """
    return _differing(_computed(one), _computed(other))


def _computed(recipe: Recipe) -> dict[str, Any]:
    plain = resolved(recipe) | {"plugins": [Path(plugin).name for plugin in recipe.plugins]}
    return {key: value for key, value in plain.items() if key not in NO_DIFFERENCE}


def _differing(first: Any, second: Any, above: str = "") -> list[str]:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return [] if first == second else [above]
    dot = f"{above}." if above else ""
    if first.get("name") != second.get("name"):
        return [f"{dot}name"]
    keys = dict.fromkeys([*first, *second])
    return [
        found
        for key in keys
        for found in _differing(first.get(key), second.get(key), f"{dot}{key}")
    ]


def _part(recipe: Recipe, key: str) -> dict[str, Any] | None:
    """A part; one that is no dataclass keeps its options to itself, so they are as written."""
    part = getattr(recipe, key)
    if part is None:
        return None
    written = recipe.document.children.get(key)
    if not dataclasses.is_dataclass(part) and written is not None and written.mapping:
        return plain_value(written.plain())
    return plain_part(part)
