"""Recipes side by side: the keys in which runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

UNTOLD = ("title", "output", "smoke", "format")
"""Top-level keys that say nothing about how a run was made."""


def read_recipe(folder: Path) -> dict[str, Any]:
    """recipe.resolved.yaml of a run, or nothing."""
    file = folder / "recipe.resolved.yaml"
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def flat(recipe: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Dotted key -> value as text; an empty section is `{}`."""
    made: dict[str, str] = {}
    for key, value in recipe.items():
        if not above and key in UNTOLD:
            continue
        if isinstance(value, Mapping) and value:
            made |= flat(value, f"{above}{key}.")
        elif not above and key == "plugins":  # where files lie on one machine is nobody's business
            made[key] = text([Path(str(each)).name for each in value or ()])
        else:
            made[f"{above}{key}"] = text(value)
    return made


def text(value: Any) -> str:
    """A value as YAML writes it on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def differences(recipes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`key values` of each key on which not all recipes agree; None where one has no such key."""
    all_flat = [flat(recipe) for recipe in recipes]
    keys = dict.fromkeys(key for each in all_flat for key in each)
    rows = [{"key": key, "values": [each.get(key) for each in all_flat]} for key in keys]
    return [row for row in rows if len(set(row["values"])) > 1]
