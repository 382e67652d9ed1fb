"""Recipes: YAML in, checked objects out; every problem is reported at once with its place."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dllmzoo.recipe.document import dump
    from dllmzoo.recipe.recipe import Recipe, load
    from dllmzoo.recipe.written import difference, resolved

__all__ = ["Recipe", "difference", "dump", "load", "resolved"]

_HOMES = {
    "Recipe": "recipe",
    "difference": "written",
    "dump": "document",
    "load": "recipe",
    "resolved": "written",
}


def __getattr__(name: str) -> Any:
    """Import the readers when they are first used, so that listing recipes stays quick."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"dllmzoo.recipe.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dllmzoo.recipe' has no attribute {name!r}")
