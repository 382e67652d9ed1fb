"""Values as JSON: plain data by value, everything else by a number that stands for it.

A value is a flat list, containers before what they hold: `[1, (2,)]` is
`[["list", 2], 1, ["tuple", 1], 2]`. Headers are lists, so text is never mistaken for one. What is
read back has exactly the built-in types named in it; nothing that a sender writes is run.
"""

from __future__ import annotations

import sys

from .library import COLLECTIONS, parts_of, rebuilt

TYPE_CHECKING = False  # the import of `typing` would cost every program 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Foreign = Callable[[Any], list[Any]]
    """Header of a value that does not travel, or raises TypeError."""

try:
    from _json import encode_basestring_ascii as quoted
except ImportError:  # another implementation of Python
    from json.encoder import encode_basestring_ascii as quoted

LONG = 1 << 60
"""Integers from here on are written in hexadecimal: reading them takes linear time."""
SEQUENCES = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
MADE: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
CHANGEABLE = (list, dict, set, bytearray)
CHANGED_NAMES = (*COLLECTIONS, "ndarray")
CHANGEABLE_LIBRARY = (*(("collections", name) for name in COLLECTIONS), ("numpy", "ndarray"))
DEEPEST = 6000
"""Calls of the functions in here, two for a level of nesting."""
BASES = (int, float, str, bytes, list, dict, set, frozenset)


def dumps(flat: list[Any]) -> bytes:
    """JSON of a flat list; `json` itself would cost every program 6 ms to import."""
    return f"[{','.join(map(_json, flat))}]".encode()


def _json(item: Any) -> str:
    if item is None or item is True or item is False:
        return {None: "null", True: "true", False: "false"}[item]
    if isinstance(item, str):
        return quoted(item)
    return f"[{','.join(map(_json, item))}]" if isinstance(item, list) else repr(item)


class Shared:
    """Containers of a request that its answer may change or return.

    Both sides count them in the order in which they are written, so `["shared", 2]` is the same
    container on both: what a function returns `is` its argument, and lists in lists are changed.
    """

    def __init__(self, items: list[Any] | None = None) -> None:
        """Those that were read; none of a request that is still to be written."""
        self.items = [] if items is None else items
        self.numbers = {id(item): number for number, item in enumerate(self.items)}
        self.complete = items is not None

    def number(self, value: Any) -> int | None:
        """Of a container that was met before; others are counted while a request is written."""
        known = self.numbers.get(id(value))
        if known is None and not self.complete:
            self.numbers[id(value)] = len(self.items)
            self.items.append(value)
        return known


def changeable(kind: type) -> bool:
    """Whether containers of a class are counted."""
    return kind in CHANGEABLE or (kind.__module__, kind.__name__) in CHANGEABLE_LIBRARY


def contents(value: Any) -> Any:
    """What a counted container holds, as a plain value."""
    if isinstance(value, dict):
        return tuple(part for pair in value.items() for part in pair)
    if isinstance(value, bytearray):
        return bytes(value)
    return value.copy() if hasattr(value, "dtype") else tuple(value)


def refill(value: Any, new: Any) -> None:
    """Give a counted container other contents.

    Raises:
        Exception: of whatever kind, for contents of another form.
    """
    if isinstance(value, dict):
        value.clear()
        for key, item in zip(new[::2], new[1::2], strict=True):
            value[key] = item
    elif isinstance(value, bytearray):
        value[:] = new
    elif hasattr(value, "dtype"):
        value[...] = new
    else:
        value.clear()
        value.update(new) if isinstance(value, set) else value.extend(new)


class Packer:
    """Writes values to a flat list.

    Args:
        foreign: asked about what is no plain data.
        shared: containers that the reader has, or will have.
        stay: name of a module; objects of its classes are not sent as plain data even if they
            are some: a dictionary with methods of its own.
    """

    def __init__(
        self,
        foreign: Foreign,
        shared: Shared | None = None,
        *,
        stay: str | None = None,
    ) -> None:
        """Nothing is written."""
        self.foreign, self.shared, self.stay = foreign, shared, stay
        self.flat: list[Any] = []

    def written(self, value: Any) -> list[Any]:
        """The flat list with this value.

        Raises:
            TypeError: it cannot be sent.
            RecursionError: it is nested too deep, or holds itself.
        """
        with Deep():
            self.pack(value)
        return self.flat

    def pack(self, value: Any) -> None:
        """Append a value."""
        kind, flat = type(value), self.flat
        if value is None or kind is bool or kind is str:
            flat.append(value)
        elif kind is int:
            flat.append(value if -LONG < value < LONG else ["int", hex(value)])
        elif kind is float:
            flat.append(value if value - value == 0 else ["float", repr(value)])
        elif self.shared is not None and changeable(kind) and self._met(value):
            return
        elif kind in SEQUENCES:
            self._items(SEQUENCES[kind], value)
        elif kind is dict:
            flat.append(["dict", len(value)])
            for pair in value.items():
                for part in pair:
                    self.pack(part)
        elif kind is bytes or kind is bytearray:
            flat.append([kind.__name__, value.hex()])
        elif kind is complex:
            flat.append(["complex", repr(value.real), repr(value.imag)])
        elif kind is range:
            flat.append(["range"])
            self._items("tuple", (value.start, value.stop, value.step))
        elif value is NotImplemented or value is Ellipsis:
            flat.append(["constant", repr(value)])
        elif isinstance(value, type) and (name := _built_in(value)):
            flat.append(["type", name])
        elif kind.__module__ == self.stay or not self._library(value, kind):
            flat.append(self.foreign(value))

    def _met(self, value: Any) -> bool:
        assert self.shared is not None
        number = self.shared.number(value)
        if number is not None:
            self.flat.append(["shared", number])
        return number is not None

    def _items(self, name: str, items: Any) -> None:
        self.flat.append([name, len(items)])
        for item in items:
            self.pack(item)

    def _library(self, value: Any, kind: type) -> bool:
        """Append values of the standard library, of numpy, and of subclasses of plain data."""
        if (found := parts_of(value, kind)) is not None:
            self.flat.append(["library", found[0]])
            self.pack(found[1])
            return True
        for base in (*BASES, tuple):
            if isinstance(value, base):
                self.pack(_as_base(value, base))
                return True
        return False


class Deep:
    """A block in which data may be nested deeper than functions may call themselves."""

    def __enter__(self) -> None:
        """Raise the limit."""
        self.before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.before, DEEPEST))

    def __exit__(self, *error: Any) -> None:
        """Set it back."""
        sys.setrecursionlimit(self.before)


def _built_in(kind: type) -> str | None:
    name = kind.__name__
    return name if getattr(sys.modules["builtins"], name, None) is kind else None


def _as_base(value: Any, base: type) -> Any:
    if base is int:
        return int.__add__(value, 0)
    if base is float:
        return float.__add__(value, 0.0)
    if base is str:
        return str.__add__(value, "")
    return base(getattr(base, "items", base.__iter__)(value))


class Reader:
    """Makes a value of a flat list.

    Args:
        flat: as a `Packer` writes it, but from a sender that is not trusted.
        foreign: makes a value of the header of one that does not travel.
        shared: containers of the request that this answers.

    Raises:
        ValueError, TypeError, ...: anything but a value, of whatever kind Python raises.
    """

    def __init__(
        self,
        flat: list[Any],
        foreign: Callable[[list[Any]], Any],
        shared: list[Any] | None = None,
    ) -> None:
        """Nothing is read."""
        self._items: Iterator[Any] = iter(flat)
        self._foreign = foreign
        self.made: list[Any] = []
        self.shared = self.made if shared is None else shared

    def value(self) -> Any:
        """The whole value."""
        with Deep():
            return self.read()

    def read(self) -> Any:
        """The next value."""
        item = next(self._items)
        if not isinstance(item, list):
            return item
        name, rest = item[0], item[1:]
        if name in MADE:
            if name in ("list", "set"):
                self.made.append(made := MADE[name]())
                add = made.append if name == "list" else made.add
                for _ in range(rest[0]):
                    add(self.read())
                return made
            return MADE[name]([self.read() for _ in range(rest[0])])
        if name == "dict":
            self.made.append(table := {})
            for _ in range(rest[0]):
                key = self.read()
                table[key] = self.read()
            return table
        if name == "shared":
            return self.shared[rest[0]]
        if name == "int":
            return int(rest[0], 16)
        if name == "float":
            import math

            return math.nan if rest[0] == "nan" else float(rest[0])
        if name == "bytes":
            return bytes.fromhex(rest[0])
        if name == "bytearray":
            self.made.append(bytearray.fromhex(rest[0]))
            return self.made[-1]
        if name == "complex":
            return complex(float(rest[0]), float(rest[1]))
        if name == "range":
            return range(*self.read())
        if name == "constant":
            return {"NotImplemented": NotImplemented, "Ellipsis": Ellipsis}[rest[0]]
        if name == "type":
            found = getattr(sys.modules["builtins"], rest[0])
            if not isinstance(found, type):
                raise TypeError(f"{rest[0]} is no type")
            return found
        if name == "library":
            if rest[0] not in CHANGED_NAMES:
                return rebuilt(rest[0], self.read())
            number = len(self.made)
            self.made.append(None)
            self.made[number] = rebuilt(rest[0], self.read())
            return self.made[number]
        return self._foreign(item)
