"""YAML text to a tree that knows where each key and value stands, and back to text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from dllmzoo.errors import Problem, RecipeError
from dllmzoo.recipe._scalars import Dumper, resolve

MAX_DEPTH = 50
"""Levels of nesting a document may have; a recipe needs five."""

MAX_NODES = 100_000
"""Values a document may have once its aliases are written out."""

_HINTS = {
    "'\\t'": "indent with spaces, not with tabs",
    "mapping values are not allowed": "quote a text that contains ': '",
    "but got '<stream end>'": "a bracket is not closed",
}


@dataclass(frozen=True)
class Node:
    """One value of a document, and its place.

    Args:
        value: a mapping of nodes, a tuple of nodes, or a scalar; in a tree made from Python also
            any object, which is left as it is.
        source: name of the file, or of what gave the value (`recipe`, `override loss.clip_low`).
        line: of the value, counted from 1; 0 where there is no text.
        column: of the value, counted from 1.
        key_line: of the key that holds the value; 0 for items of a list and for the whole.
        key_column: of that key.
    """

    value: Any
    source: str = "recipe"
    line: int = 0
    column: int = 0
    key_line: int = 0
    key_column: int = 0

    @property
    def where(self) -> str:
        """`file:line:column` of the key, or of the value where no key holds it."""
        line, column = self.line, self.column
        if self.key_line:
            line, column = self.key_line, self.key_column
        return f"{self.source}:{line}:{column}" if line else self.source

    @property
    def mapping(self) -> bool:
        """Whether the value is a mapping of nodes."""
        return isinstance(self.value, dict)

    @property
    def children(self) -> dict[str, Node]:
        """The entries of a mapping; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def plain(self) -> Any:
        """The value without places: dictionaries, tuples and scalars."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, tuple):
            return tuple(child.plain() for child in self.value)
        return self.value

    def find(self, *path: str | int) -> Node:
        """The node at `path`, or the deepest one on the way there that exists."""
        node = self
        for step in path:
            below = node.child(step)
            if below is None:
                break
            node = below
        return node

    def child(self, step: str | int) -> Node | None:
        """The entry of a mapping or the item of a list; None where there is none."""
        if isinstance(self.value, dict):
            return self.value.get(step)
        if isinstance(self.value, tuple) and isinstance(step, int) and step < len(self.value):
            return self.value[step]
        return None

    @classmethod
    def of(cls, value: Any, source: str = "recipe") -> Node:
        """The tree of a Python value; lists become tuples, objects stay as they are.

        Raises:
            RecipeError: a key is not a string, or the value contains itself.
        """
        return cls(_tree(value, source, 0), source)


def _tree(value: Any, source: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise RecipeError([Problem(source, "", f"is nested more than {MAX_DEPTH} levels deep")])
    if isinstance(value, Node):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        if bad := [key for key in value if not isinstance(key, str)]:
            raise RecipeError([Problem(source, "", f"the key {bad[0]!r} is not a text")])
        return {key: _child(child, source, depth) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_child(child, source, depth) for child in value)
    return value


def _child(value: Any, source: str, depth: int) -> Node:
    return value if isinstance(value, Node) else Node(_tree(value, source, depth + 1), source)


def parse(text: str, name: str) -> Node:
    """The tree of a YAML 1.2 text.

    Args:
        text: one document.
        name: what problems call the text, usually its path.

    Raises:
        RecipeError: every problem of the text: syntax, duplicate keys, merge keys, ...
    """
    node, problems = survey(text, name)
    if problems:
        raise RecipeError(problems)
    return node


def read(path: str | Path) -> Node:
    """The tree of a YAML file.

    Raises:
        RecipeError: the file cannot be read, is not UTF-8, or has problems as in `parse`.
    """
    return parse(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, without its byte order mark.

    Raises:
        RecipeError: there is no such file, it is a folder, or it is not UTF-8.
    """
    name = str(path)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise RecipeError([Problem(name, "", "there is no such file")]) from None
    except IsADirectoryError:
        hint = "give the path of a YAML file"
        raise RecipeError([Problem(name, "", "is a folder", hint)]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RecipeError([Problem(name, "", f"cannot be read: {reason}")]) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        where = f"{name}:{before.count(chr(10)) + 1}:{len(before.rpartition(chr(10))[2]) + 1}"
        hint = "save the file as UTF-8"
        raise RecipeError([Problem(where, "", "is not UTF-8 text", hint)]) from None


def dump(plain: Any) -> str:
    """YAML 1.2 text that `parse` reads back to the same value; one key a line."""
    return yaml.dump(
        plain,
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=88,
        default_flow_style=False,
    )


def survey(text: str, name: str) -> tuple[Node, list[Problem]]:
    """The tree and every problem, for callers that go on to look for more.

    Entries whose key has a problem are left out of the tree. A text that YAML cannot read gives
    one problem and an empty mapping.
    """
    reader = _Reader(name)
    try:
        node = reader.document(yaml.parse(text.removeprefix("\ufeff"), Loader=yaml.SafeLoader))
    except _Stop:
        node = Node({}, name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        what = error.problem or error.context or ""
        hint = next((hint for words, hint in _HINTS.items() if words in what), "")
        reader.problems.append(Problem(where, "", f"not YAML: {what}", hint))
        node = Node({}, name)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        where = f"{name}:{before.count(chr(10)) + 1}:{len(before.rpartition(chr(10))[2]) + 1}"
        message = f"the character {chr(int(error.character))!a} is not allowed in YAML"
        reader.problems.append(Problem(where, "", message))
        node = Node({}, name)
    return node, reader.problems


class _Stop(Exception):
    """Reading on makes no sense; the problem is in the list."""


class _Reader:
    """Builds nodes from YAML events, and collects problems."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self.anchors: dict[str, Node | None] = {}
        self.nodes = 0

    def document(self, events: Iterator[Any]) -> Node:
        root = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._problem(event, "a second document starts here", "keep one to a file")
                    break
                root = self._node(next(events), events, "", 0)
        if root is None:
            self._stop(None, "is empty", "")
        return root

    def _node(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        self.nodes += 1
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if depth > MAX_DEPTH:
            self._stop(event, f"is nested more than {MAX_DEPTH} levels deep", "")
        if event.tag not in (None, "!"):
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            hint = "remove the tag; quote a value that is a text"
            self._problem(event, f"the tag {tag} is not read", hint, path)
        if isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(events, path, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(events, path, depth)
        else:
            value = self._scalar(event, path)
        node = Node(value, self.name, *_start(event))
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _mapping(self, events: Iterator[Any], path: str, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        first: dict[str, str] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key_node = self._node(event, events, path, depth + 1)
            key = key_node.value if isinstance(event, yaml.ScalarEvent) else None
            here = f"{path}.{key}" if path else str(key)
            child = self._node(next(events), events, here, depth + 1)
            line, column = _start(event)
            if key == "<<" and event.style is None:
                hint = "write the keys out: a recipe is read without looking elsewhere"
                self._problem(event, "merge keys are not read", hint, path)
            elif not isinstance(event, yaml.ScalarEvent):
                self._problem(event, "a key must be a plain text", "", path)
            elif not isinstance(key, str):
                hint = f'write "{event.value}"'
                self._problem(event, f"the key {event.value or 'null'} is not a text", hint, path)
            elif key in entries:
                message = f"duplicate key {key!r}"
                self._problem(event, message, f"it stands already at {first[key]}", here)
            else:
                entries[key] = replace(child, key_line=line, key_column=column)
                first[key] = f"{self.name}:{line}:{column}"
        return entries

    def _sequence(self, events: Iterator[Any], path: str, depth: int) -> tuple[Node, ...]:
        items: list[Node] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(self._node(event, events, f"{path}[{len(items)}]", depth + 1))
        return tuple(items)

    def _scalar(self, event: Any, path: str) -> Any:
        if not event.implicit[0] or event.tag == "!":
            return event.value
        try:
            return resolve(event.value)
        except ValueError:
            self._problem(event, "the number has too many digits", "", path)
            return None

    def _alias(self, event: Any, path: str) -> Node:
        if event.anchor not in self.anchors:
            self._stop(event, f"the alias *{event.anchor} has no anchor before it", "")
        node = self.anchors[event.anchor]
        if node is None:
            self._stop(event, f"the alias *{event.anchor} stands inside its own anchor", "")
        self.nodes += _size(node)
        if self.nodes > MAX_NODES:
            self._stop(event, f"holds more than {MAX_NODES} values once aliases are filled in", "")
        line, column = _start(event)
        return replace(node, line=line, column=column, key_line=0, key_column=0)

    def _problem(self, event: Any, message: str, hint: str, path: str = "") -> None:
        where = "{}:{}:{}".format(self.name, *_start(event)) if event is not None else self.name
        self.problems.append(Problem(where, path, message, hint))

    def _stop(self, event: Any, message: str, hint: str) -> NoReturn:
        self._problem(event, message, hint)
        raise _Stop


def _start(event: Any) -> tuple[int, int]:
    """Line and column, counted from 1, where an event begins."""
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _size(node: Node) -> int:
    """Values below a node, itself included."""
    if isinstance(node.value, dict):
        return 1 + sum(map(_size, node.value.values()))
    if isinstance(node.value, tuple):
        return 1 + sum(map(_size, node.value))
    return 1


def key_path(parts: tuple[str | int, ...]) -> str:
    """`optimizer.betas[1]` of ("optimizer", "betas", 1)."""
    text = ".".join(f"[{part}]" if isinstance(part, int) else part for part in parts)
    return re.sub(r"\.\[", "[", text)
