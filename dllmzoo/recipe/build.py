"""A name, a mapping or a node of a recipe becomes a component; every problem is told at once."""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
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
    """The component a node describes; the reasons against it are added to `problems`.

    Returns:
        With problems, a component without the bad options, for checks to go on with, or `FAILED`.
    """
    value = node.value
    if not isinstance(value, dict | str | int | float | tuple | type | None):
        return value
    name, cls = named_class(kind, node, path, problems)
    if cls is None:
        return FAILED
    options = replace(node, value={k: v for k, v in node.children.items() if k != "name"})
    if kind == "model":
        return _model(cls, options, path, problems, name)
    return fill(cls, options, path, problems, name)


def named_class(kind: str, node: Node, path: Path, problems: list[Problem]) -> tuple[str, Any]:
    """The name in a node and its class; None for the class, if there is none of that name."""
    registry = ZOO[kind]
    known = f"there are: {', '.join(registry.names())}"
    if node.mapping:
        if "name" not in node.children:
            message = f"the {kind} has no name"
            problems.append(
                Problem(node.where, key_path(path), message, f"write name: ...; {known}")
            )
            return "", None
        node, path = node.children["name"], (*path, "name")
    name = node.value
    if not isinstance(name, str):
        message, hint = f"expected the name of a {kind}, got {shown(node.plain())}", known
        if isinstance(name, type):
            message, hint = f"expected an object, got the class {name.__name__}", "call it"
        problems.append(Problem(node.where, key_path(path), message, hint))
        return "", None
    try:
        return name, registry.get(name)
    except UnknownNameError as error:
        message, _, hint = str(error).partition(". ")
        if close := registry.suggestions(name, 1):
            hint = f"did you mean {close[0]!r}? {hint[hint.find('There are') :]}"
        problems.append(Problem(node.where, key_path(path), message, hint))
    except PluginError as error:
        problems.append(Problem(node.where, key_path(path), str(error)))
    return name, None


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

    Returns:
        With problems, an object that has the defaults in place of bad options, or `FAILED`.
    """
    if not hasattr(cls, "__pydantic_validator__"):
        return _call(cls, node, path, problems, what)
    hints = option_types(cls)
    values: dict[str, Any] = {}
    bad: set[str] = set()
    for key, child in node.children.items():
        inner = section_class(hints.get(key))
        if found := _not_numbers(child, (*path, key), finite):
            problems += found
            bad.add(key)
        elif inner is None or not child.mapping:
            values[key] = child.plain()
        else:
            values[key] = fill(inner, child, (*path, key), problems, key, finite=finite)
            if values[key] is FAILED:
                bad.add(key)
    made, errors = _validated(cls, values, bad, node, path, problems, what)
    problems += explain(errors, node, path, what, hints)
    if errors:
        bad |= {str(error["loc"][0]) for error in errors if error["loc"]}
        made, _ = _validated(cls, values, bad, node, path, [], what)
    return made


def _validated(
    cls: Any, values: dict[str, Any], bad: set[str], node: Node, path: Path,
    problems: list[Problem], what: str,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The object, or `FAILED`, and what pydantic found, but for what is known to be bad."""
    from pydantic import ValidationError

    try:
        return cls(**{key: value for key, value in values.items() if key not in bad}), []
    except ValidationError as error:
        found = error.errors()
        return FAILED, [each for each in found if not (each["loc"] and each["loc"][0] in bad)]
    except Exception as error:
        message = f"{what} cannot be made: {type(error).__name__}: {error}"
        problems.append(Problem(node.where, key_path(path), message))
        return FAILED, []


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
    fields = node.children.get("config", node)
    config = _call(cls.config_class, fields, path, problems, what)
    return config if config is FAILED else cls(config)


def section_class(hint: Any) -> Any:
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
