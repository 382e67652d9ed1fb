"""Values of the standard library and of numpy, as plain data and back."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # the import of `typing` would cost every program 10 ms
if TYPE_CHECKING:
    from typing import Any

COLLECTIONS = ("OrderedDict", "Counter", "defaultdict", "deque")
VIEWS = ("dict_keys", "dict_values", "dict_items")
TIMES = ("date", "time", "datetime")
BY_TEXT = {
    "Decimal": "decimal", "UUID": "uuid", "IPv4Address": "ipaddress", "IPv6Address": "ipaddress",
    "IPv4Network": "ipaddress", "IPv6Network": "ipaddress", "PosixPath": "pathlib",
    "PurePosixPath": "pathlib",
}  # fmt: skip
"""Classes whose objects are made anew from their text."""
NUMBERS, NUMBERS_AND_TEXT = "biufc", "biufcSU"
"""Kinds of numpy's types."""


def parts_of(value: Any, kind: type) -> tuple[str, Any] | None:
    """The name and the plain parts of a value; None if its class is not known here.

    Args:
        value: of the standard library or numpy, or a named tuple.
        kind: its class.
    """
    module, name = kind.__module__, kind.__name__
    if module == "collections" and name in COLLECTIONS:
        items = tuple(value) if name == "deque" else tuple(value.items())
        first = {"deque": "maxlen", "defaultdict": "default_factory"}.get(name, "")
        return name, (getattr(value, first, None), items)
    if module == "builtins" and name in VIEWS:
        return name, (tuple(value),)
    if name in BY_TEXT and module.partition(".")[0].strip("_").removeprefix("py") == BY_TEXT[name]:
        return name, (str(value),)
    if module == "fractions" and name == "Fraction":
        return name, (value.numerator, value.denominator)
    if module == "datetime" and name in TIMES:
        return name, (value.isoformat(),)
    if module == "datetime" and name == "timedelta":
        return name, (value.days, value.seconds, value.microseconds)
    if module == "numpy" and hasattr(value, "dtype"):
        return _of_numpy(value, name)
    fields: Any = getattr(kind, "_fields", None)
    if isinstance(value, tuple) and fields is not None:
        return "namedtuple", (name, tuple(fields), tuple(tuple.__iter__(value)))
    return None


def _of_numpy(value: Any, name: str) -> tuple[str, Any] | None:
    kind = value.dtype.kind
    if name == "ndarray":
        parts = (str(value.dtype), value.tolist(), tuple(value.shape))
        return (name, parts) if kind in NUMBERS_AND_TEXT else None
    if not hasattr(value, "item"):
        return None
    plain = value.item()
    if hasattr(plain, "dtype"):  # of more digits than Python's numbers have
        plain = complex(plain) if kind == "c" else float(plain)
    return "scalar", (str(value.dtype) if kind in NUMBERS else "", plain)


def rebuilt(name: str, parts: Any) -> Any:
    """The value of a name and its parts.

    Raises:
        Exception: of whatever kind, for parts that belong to none: the sender is not trusted.
    """
    if name in COLLECTIONS:
        import collections

        if name == "deque":
            return collections.deque(parts[1], parts[0])
        pairs = dict(parts[1])
        if name == "defaultdict":
            return collections.defaultdict(parts[0], pairs)
        return getattr(collections, name)(pairs)
    if name in BY_TEXT:
        return getattr(__import__(BY_TEXT[name]), name)(str(parts[0]))
    if name == "Fraction":
        from fractions import Fraction

        return Fraction(int(parts[0]), int(parts[1]))
    if name in TIMES or name == "timedelta":
        import datetime

        if name == "timedelta":
            return datetime.timedelta(*map(int, parts))
        return getattr(datetime, name).fromisoformat(str(parts[0]))
    if name in VIEWS:
        items = parts[0]
        table = dict(items if name == "dict_items" else enumerate(items))
        return {
            "dict_keys": lambda: dict.fromkeys(items).keys(),
            "dict_values": table.values,
            "dict_items": table.items,
        }[name]()
    if name == "scalar":
        numpy = sys.modules.get("numpy")  # who has not imported it asks for no type of it
        return numpy.dtype(parts[0]).type(parts[1]) if numpy and parts[0] else parts[1]
    if name == "ndarray":
        import numpy

        return numpy.array(parts[1], dtype=str(parts[0])).reshape(parts[2])
    if name == "namedtuple":
        from collections import namedtuple

        return namedtuple(str(parts[0]), [str(field) for field in parts[1]])(*parts[2])
    raise ValueError(f"no value is called {name!r}")
