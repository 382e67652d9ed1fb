"""Objects back to what a recipe writes: names, mappings, lists and scalars."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dllmzoo.errors import DllmzooError
from dllmzoo.zoo import MODELS, ZOO

PARTS = tuple(registry for registry in ZOO.values() if registry is not MODELS)
"""Kinds whose components a recipe holds as objects."""


def plain_part(part: Any) -> dict[str, Any]:
    """`{"name": ..., option: value}` with every option of a component written out.

    An object of an unregistered class is named after its class; a component that is no dataclass
    keeps its options to itself.
    """
    return {"name": name_of(part), **options_of(part)}


def options_of(part: Any) -> dict[str, Any]:
    """Every option of a dataclass and its value."""
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return {}
    return {
        field.name: plain_value(getattr(part, field.name))
        for field in dataclasses.fields(part)
        if field.init
    }


def plain_value(value: Any) -> Any:
    """Mappings, lists and scalars; components and sections inside are written out too."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(child) for key, child in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_value(child) for child in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    registered = hasattr(type(value), "__registered_from__")
    if dataclasses.is_dataclass(value) and not registered:
        return options_of(value)
    return plain_part(value)


def name_of(part: Any) -> str:
    """The registered name of a component, or the name of its class."""
    cls = type(part)
    package, _, file_name = cls.__module__.rpartition(".")
    for registry in ZOO.values():
        if package == registry.package and not file_name.startswith("_"):
            return file_name
    for registry in PARTS:
        for name in registry.names():
            try:
                if registry.get(name) is cls:
                    return name
            except DllmzooError:
                continue
    return cls.__name__
