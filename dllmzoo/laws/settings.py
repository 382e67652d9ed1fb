"""Settings of a component, drawn from the ranges that its annotations state."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

from dllmzoo.laws.case import Case

KEEP = object()
"""Stands for "leave the default": the annotation gives no range."""


def drawn(cls: type, case: Case) -> Any:
    """A component with random settings; those a class refuses are put back to their defaults.

    Numbers are drawn from at most 3 above the lower bound of their range, `Literal` and bool from
    all values; a field without a range keeps its default.
    """
    values = choices(cls, case)
    while values:
        try:
            return cls(**values)
        except (ValueError, TypeError):
            values.pop(next(iter(values)))
    return cls()


def choices(cls: type, case: Case) -> dict[str, Any]:
    """A value for every field whose annotation gives a range, in a random order."""
    if not dataclasses.is_dataclass(cls):
        return {}
    hints = typing.get_type_hints(cls, include_extras=True)
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    found = {}
    for i in case.order("fields", len(names)).tolist():
        value = _value(hints[names[i]], case, names[i])
        if value is not KEEP and case.truth(f"change {names[i]}", 0.7):
            found[names[i]] = value
    return found


def name_of(part: Any) -> str:
    """Class name of a component or class."""
    return part.__name__ if isinstance(part, type) else type(part).__name__


def _value(hint: Any, case: Case, tag: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return case.among(tag, args)
    if hint is bool:
        return case.truth(tag)
    if origin in (typing.Union, types.UnionType):
        if type(None) in args and case.truth(f"{tag} is none", 0.25):
            return None
        found = [_value(arg, case, tag) for arg in args if arg is not type(None)]
        found = [value for value in found if value is not KEEP]
        return case.among(f"{tag} option", found) if found else KEEP
    if origin is typing.Annotated:
        return _number(args, case, tag)
    return KEEP


def _number(args: tuple[Any, ...], case: Case, tag: str) -> Any:
    kind, bounds = args[0], _bounds(args[1:])
    low = bounds.get("ge", bounds.get("gt"))
    high = bounds.get("le", bounds.get("lt"))
    if kind is int and low is not None:
        first = int(low) + ("gt" in bounds)
        last = first + 3 if high is None else min(first + 3, int(high) - ("lt" in bounds))
        return case.integer(tag, first, last) if last >= first else KEEP
    if kind is float and low is not None:
        top = min(low + 3.0, high) if high is not None else low + 3.0
        if case.truth(f"{tag} at its bound", 0.15) and "ge" in bounds:
            return float(low)
        return low + (top - low) * float(case.uniform(tag, low=0.02, high=0.98))
    inner = typing.get_origin(kind)
    return _value(kind, case, tag) if inner is not None else KEEP


def _bounds(extras: tuple[Any, ...]) -> dict[str, float]:
    found = {}
    for extra in extras:
        for bound in getattr(extra, "metadata", None) or [extra]:
            for name in ("ge", "gt", "le", "lt"):
                if getattr(bound, name, None) is not None:
                    found[name] = getattr(bound, name)
    return found
