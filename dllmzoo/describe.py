"""What a component says of itself: its docstring and its signature, as one record."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """One knob: its name, type, range, default and meaning, as text."""

    name: str
    type: str
    range: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Info:
    """What `dllmzoo show` and the docs print of a component."""

    kind: str
    name: str
    aliases: tuple[str, ...]
    summary: str
    doc: str
    parameters: tuple[Parameter, ...]
    references: str
    location: str
    exempt: dict[str, str]


def describe(kind: str, name: str, aliases: tuple[str, ...], cls: type, location: str) -> Info:
    """Read the record off a class."""
    doc = inspect.getdoc(cls) or ""
    return Info(
        kind=kind,
        name=name,
        aliases=aliases,
        summary=doc.partition("\n")[0],
        doc=doc,
        parameters=tuple(_parameters(cls, _section(doc, "Args"))),
        references=" ".join(_section(doc, "References").split()),
        location=location,
        exempt=dict(getattr(cls, "exempt", {})),
    )


def source_summary(path: Path) -> str:
    """First docstring line of the class a component file registers, without importing the file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(map(_registers, node.decorator_list)):
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def _registers(decorator: ast.expr) -> bool:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(call, ast.Attribute) and call.attr == "register"


def _section(doc: str, title: str) -> str:
    """Body of one Google-style section of a docstring, dedented."""
    found = re.search(rf"^{title}:\n((?:[ \t]+.*\n?|\n)*)", doc, re.MULTILINE)
    return inspect.cleandoc(found[1]) if found else ""


def _parameters(cls: type, args: str) -> list[Parameter]:
    if not dataclasses.is_dataclass(cls):
        return []
    meaning = {}
    for entry in re.split(r"\n(?=\S)", args):
        head, _, text = entry.partition(":")
        for each in re.split(r",\s*|\s+and\s+", head):
            meaning[each.strip().strip("`")] = " ".join(text.split())
    hints = typing.get_type_hints(cls, include_extras=True)
    return [
        Parameter(
            field.name,
            type_text(hints[field.name]),
            range_text(hints[field.name]),
            "required" if _default(field) is dataclasses.MISSING else str_default(_default(field)),
            meaning.get(field.name, ""),
        )
        for field in dataclasses.fields(cls)
    ]


def _default(field: dataclasses.Field[Any]) -> Any:
    """The default of a field, also where pydantic has wrapped it."""
    from pydantic.fields import FieldInfo

    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    if isinstance(field.default, FieldInfo):
        return field.default.get_default(call_default_factory=True)
    return field.default


def str_default(value: Any) -> str:
    """A default as a recipe would write it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if not isinstance(value, tuple) else str(list(value))


def type_text(hint: Any) -> str:
    """A type as a reader of recipes would name it."""
    if typing.get_origin(hint) is typing.Annotated:
        return type_text(typing.get_args(hint)[0])
    if typing.get_origin(hint) is typing.Literal:
        return " | ".join(str_default(value) for value in typing.get_args(hint))
    if hint is type(None):
        return "null"
    if args := typing.get_args(hint):
        origin = typing.get_origin(hint)
        inner = [type_text(arg) for arg in args if arg is not Ellipsis]
        if origin is tuple:
            return f"list of {inner[0]}" if len(set(inner)) == 1 else f"[{', '.join(inner)}]"
        if origin in (dict, typing.get_origin(typing.Mapping[str, int])):
            return f"mapping of {inner[0]} to {inner[1]}"
        return " | ".join(inner)
    return {"Any": "part"}.get(getattr(hint, "__name__", ""), getattr(hint, "__name__", str(hint)))


def range_text(hint: Any) -> str:
    """The range an annotation states, `[0, 1)`, or nothing."""
    low, high = "(-inf", "inf)"
    found = False
    for bound in _bounds(hint):
        for name, text in (("ge", "[{}"), ("gt", "({}")):
            if getattr(bound, name, None) is not None:
                low, found = text.format(getattr(bound, name)), True
        for name, text in (("le", "{}]"), ("lt", "{})")):
            if getattr(bound, name, None) is not None:
                high, found = text.format(getattr(bound, name)), True
    return f"{low}, {high}" if found else ""


def _bounds(hint: Any) -> list[Any]:
    found = []
    if typing.get_origin(hint) is typing.Annotated:
        for extra in typing.get_args(hint)[1:]:
            found += list(getattr(extra, "metadata", [])) or [extra]
    for arg in typing.get_args(hint):
        if typing.get_origin(arg) is typing.Annotated:
            found += _bounds(arg)
    return found
