"""A name, a mapping or a node of a recipe becomes a component; every problem is told at once."""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any

from dllmzoo.errors import PluginError, Problem, RecipeError, UnknownNameError, UsageError
from dllmzoo.recipe._explain import Path, explain, in_order, option_types, shown, unknown
from dllmzoo.recipe.document import Node, key_path
from dllmzoo.zoo import ZOO


class Failed:
    """What stands in for an object that could not be made; its problems are in the list."""


FAILED = Failed()


def build(kind: str, node: str | Mapping[str, Any] | Node | Any) -> Any:
    """The component that `node` describes.

    Args:
        kind: `schedule`, `sampler`, `selector`, `likelihood`, `advantage`, `loss`, `task`, or
            `model` (an untrained network; options are the fields of its config).
        node: a name, `{"name": ..., option: value}`, a node of a recipe, or a component, which
            is handed back.

    Raises:
        RecipeError: every problem of the node, each with its place.
        UsageError: there is no such kind.

    Example:
        >>> build("schedule", "linear").commits(5, 2)
        [3, 2]
    """
    if kind not in ZOO:
        raise UsageError(f"no kind of component {kind!r}; there are: {', '.join(ZOO)}")
    problems: list[Problem] = []
    tree = node if isinstance(node, Node) else Node.of(node, kind)
    made = part(kind, tree, (kind,), problems)
    if problems:
        raise RecipeError(in_order(problems))
    return made


def nested(kind: str, value: Any) -> Any:
    """As `build`, for a part inside a part: paths of problems start at the part itself."""
    problems: list[Problem] = []
    made = part(kind, Node.of(value, kind), (), problems)
    if problems:
        raise RecipeError(problems)
    return made


def part(kind: str, node: Node, path: Path, problems: list[Problem]) -> Any:
    """The component a node describes, or `FAILED` with the reasons added to `problems`."""
    cls = part_class(kind, node, path, problems)
    if cls is None:
        return FAILED
    if not isinstance(cls, type) and not callable(cls):
        return node.value
    if cls is _AS_IT_IS:
        return node.value
    options = Node(
        {key: child for key, child in node.children.items() if key != "name"},
        node.source, node.line, node.column, node.key_line, node.key_column,
    )  # fmt: skip
    name = part_name(node)
    if kind == "model":
        return _model(cls, options, path, problems, name)
    return fill(cls, options, path, problems, name)


class _AS_IT_IS:  # noqa: N801
    """Marks a node that holds a component already."""


def part_name(node: Node) -> str:
    """The name in a node, empty where there is none."""
    value = node.children["name"].value if "name" in node.children else node.value
    return value if isinstance(value, str) else ""


def part_class(kind: str, node: Node, path: Path, problems: list[Problem]) -> Any:
    """The registered class a node names; None with the reason added to `problems`."""
    registry = ZOO[kind]
    value = node.value
    if isinstance(value, dict):
        if "name" not in value:
            hint = f"write name: ...; there are: {', '.join(registry.names())}"
            problems.append(Problem(node.where, key_path(path), f"the {kind} has no name", hint))
            return None
        node = value["name"]
        value = node.value
        path = (*path, "name")
    elif not isinstance(value, str | int | float | tuple | type | None):
        return _AS_IT_IS
    if not isinstance(value, str):
        message = f"expected the name of a {kind}, got {shown(value)}"
        hint = f"there are: {', '.join(registry.names())}"
        if isinstance(value, type):
            message, hint = f"expected an object, got the class {value.__name__}", "call it"
        problems.append(Problem(node.where, key_path(path), message, hint))
        return None
    try:
        return registry.get(value)
    except UnknownNameError as error:
        message, _, hint = str(error).partition(". ")
        if close := registry.suggestions(value):
            hint = f"did you mean {' or '.join(map(repr, close))}? {hint[hint.find('There are') :]}"
        problems.append(Problem(node.where, key_path(path), message, hint))
    except PluginError as error:
        problems.append(Problem(node.where, key_path(path), str(error)))
    return None


def fill(
    cls: Any, node: Node, path: Path, problems: list[Problem], what: str, *, finite: bool = False
) -> Any:
    """An object of `cls` with the options of a mapping node.

    Args:
        cls: a pydantic dataclass, or any callable.
        node: the options.
        path: of the node in the recipe.
        problems: grows.
        what: what messages call the class.
        finite: infinities are problems too.
    """
    if not dataclasses.is_dataclass(cls) or not hasattr(cls, "__pydantic_validator__"):
        return _call(cls, node, path, problems, what)
    from pydantic import ValidationError

    hints = option_types(cls)
    before = len(problems)
    values: dict[str, Any] = {}
    for key, child in node.children.items():
        inner = _section(hints.get(key))
        if found := _not_numbers(child, (*path, key), finite):
            problems += found
        elif inner is not None and child.mapping:
            values[key] = fill(inner, child, (*path, key), problems, key, finite=finite)
        else:
            values[key] = child.plain()
    bad = {key for key in node.children if values.get(key, FAILED) is FAILED}
    try:
        made = cls(**{key: value for key, value in values.items() if key not in bad})
    except ValidationError as error:
        found = [each for each in error.errors() if not (each["loc"] and each["loc"][0] in bad)]
        problems += explain(found, node, path, what, hints)
    except Exception as error:
        message = f"{what} cannot be made: {type(error).__name__}: {error}"
        problems.append(Problem(node.where, key_path(path), message))
    else:
        return FAILED if len(problems) > before else made
    return FAILED


def _call(
    make: Callable[..., Any], node: Node, path: Path, problems: list[Problem], what: str
) -> Any:
    """The same for a callable that pydantic does not check: names only."""
    before = len(problems)
    parameters = inspect.signature(make).parameters.values()
    named = {
        each.name: each.default is each.empty
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        for key, child in node.children.items():
            if key not in named:
                problems.append(unknown(child.where, (*path, key), what, named))
    for name, required in named.items():
        if required and name not in node.children:
            problems.append(Problem(node.where, key_path((*path, name)), "is missing"))
    if len(problems) > before:
        return FAILED
    try:
        return make(**{key: child.plain() for key, child in node.children.items()})
    except RecipeError as error:
        message = "; ".join(f"{each.path}: {each.message}" for each in error.problems)
    except Exception as error:
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        message = f"{what} cannot be made: {said}"
    problems.append(Problem(node.where, key_path(path), message))
    return FAILED


def _model(cls: Any, node: Node, path: Path, problems: list[Problem], what: str) -> Any:
    """An untrained network from the fields of its config; weights are `load_model`'s business."""
    if "weights" in node.children:
        hint = f"dllmzoo.load_model({node.children['weights'].plain()!r}) reads them"
        where = node.children["weights"].where
        problems.append(Problem(where, key_path((*path, "weights")), "no weights here", hint))
        return FAILED
    fields = node.children["config"] if "config" in node.children else node
    config = _call(cls.config_class, fields, path, problems, what)
    return config if config is FAILED else cls(config)


def _section(hint: Any) -> Any:
    """The dataclass a mapping is turned into, for `Lora` and `Lora | None`."""
    for each in (hint, *typing.get_args(hint)):
        if isinstance(each, type) and hasattr(each, "__pydantic_validator__"):
            return each if dataclasses.is_dataclass(each) else None
    return None


def _not_numbers(node: Node, path: Path, finite: bool) -> list[Problem]:
    """NaN is never a setting; infinity only where a component allows it."""
    if isinstance(node.value, dict):
        found = [_not_numbers(child, (*path, key), finite) for key, child in node.value.items()]
    elif isinstance(node.value, tuple):
        found = [_not_numbers(child, (*path, i), finite) for i, child in enumerate(node.value)]
    elif isinstance(node.value, float) and (
        math.isnan(node.value) or (finite and math.isinf(node.value))
    ):
        return [Problem(node.where, key_path(path), f"expected a number, got {node.value!r}")]
    else:
        return []
    return [problem for problems in found for problem in problems]
