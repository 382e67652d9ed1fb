"""What pydantic found, in our words and at the place in the recipe."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from dllmzoo.describe import range_text, type_text
from dllmzoo.errors import Problem, RecipeError
from dllmzoo.recipe._scalars import resolve
from dllmzoo.recipe.document import Node, key_path
from dllmzoo.recipe.renamed import RENAMED

Path = tuple[str | int, ...]

NETWORK_BLOCKS = "that of the network's attention is model.config.block_size, or in its config.json"

_TYPES = {
    "float_type": "float",
    "int_type": "int",
    "bool_type": "bool",
    "string_type": "str",
    "tuple_type": "list",
    "list_type": "list",
    "dict_type": "mapping",
    "mapping_type": "mapping",
    "dataclass_type": "mapping",
    "dataclass_exact_type": "mapping",
    "none_required": "null",
}
_BOUNDS = {
    "greater_than_equal": (">=", "ge"),
    "greater_than": (">", "gt"),
    "less_than_equal": ("<=", "le"),
    "less_than": ("<", "lt"),
    "multiple_of": ("a multiple of", "multiple_of"),
}


def explain(
    errors: Sequence[Any], node: Node, path: Path, what: str, hints: dict[str, Any]
) -> list[Problem]:
    """Problems of one mapping.

    Args:
        errors: what `ValidationError.errors()` lists.
        node: the mapping that was validated.
        path: of the mapping in the recipe.
        what: name of the component or section.
        hints: its options and their types.
    """
    problems: list[Problem] = []
    unions: dict[Path, list[Any]] = {}
    for error in errors:
        loc, rest = _known(node, tuple(error["loc"]))
        if error["type"] == "unexpected_keyword_argument":
            problems.append(unknown(node.find(*loc).where, (*path, *loc), what, hints))
        elif error["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
            last, full = rest[-1] if rest else "", (*path, *loc, *rest)
            message = "is missing"
            if isinstance(last, int):
                full, message = (*path, *loc), f"item {last + 1} is missing"
            problems.append(Problem(node.find(*loc).where, key_path(full), message))
        elif isinstance(inner := error.get("ctx", {}).get("error"), RecipeError):
            problems += [_moved(problem, node, path, loc) for problem in inner.problems]
        elif error["type"] in ("value_error", "assertion_error"):
            problems.append(_own_words(error, node.find(*loc), (*path, *loc)))
        elif rest and rest != ("[key]",):
            unions.setdefault(loc, []).append((rest, error))
        else:
            problems.append(_problem(error, node.find(*loc), (*path, *loc)))
    for loc, branches in unions.items():
        problems.append(_union(branches, node.find(*loc), path, loc, hints))
    return problems


def unknown(where: str, path: Path, what: str, known: Collection[str]) -> Problem:
    """An option that `what` does not have: what it is called here, or the nearest name.

    Args:
        where: place of the key.
        path: of the key.
        what: name of the component or section.
        known: its options.
    """
    name, dotted = str(path[-1]), key_path(path)
    if name in ("block_size", "block_length", "decode_block") and "block_length" not in known:
        message = f"{name!r} is no option of {what}: blocks are those of the network's attention"
        return Problem(where, dotted, message, f"leave it out; {NETWORK_BLOCKS}")
    if "steps_per_block" in known and "sampler.steps" in (dotted, RENAMED.get(dotted)):
        message = f"{what} has no {name!r} over the whole answer: it counts the steps of a block"
        return Problem(where, dotted, message, "write sampler.steps_per_block")
    if dotted in RENAMED:
        message = f"{name!r} is called {RENAMED[dotted]} here"
        hint = f"write {RENAMED[dotted]}" + f"; {NETWORK_BLOCKS}" * (name == "block_size")
        return Problem(where, dotted, message, hint)
    above = dotted.removesuffix(name)
    elsewhere = {
        old.removeprefix(above): new
        for old, new in RENAMED.items()
        if old.startswith(above) and "." not in old.removeprefix(above)
    }
    word, _, value = name.partition(":")
    if value and word in {*known, "name"}:
        message = f"{name!r} is one word: YAML needs a space behind the colon"
        return Problem(where, dotted, message, f"write {word}: {value}")
    names = list(known)
    close = difflib.get_close_matches(name, [*names, *elsewhere], n=1, cutoff=0.6)
    meant = [repr(each) if each in names else elsewhere[each] for each in close]
    hint = f"did you mean {meant[0]}? " if meant else ""
    hint += f"{what} takes {', '.join(names)}" if names else f"{what} takes no options"
    return Problem(where, dotted, f"unknown option {name!r}", hint)


def guess(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`did you mean 'clip_low'? ` or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return f"did you mean {close[0]!r}? " if close else ""


def shown(value: Any) -> str:
    """A value as a recipe would write it, cut to a readable length."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple | list):
        text = f"[{', '.join(map(shown, value))}]"
    elif isinstance(value, dict):
        text = f"{{{', '.join(f'{key}: {shown(child)}' for key, child in value.items())}}}"
    elif isinstance(value, int) and abs(value) > 10**60:
        text = "an integer of that size"
    else:
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem once, in the order of the text; those without a line come last."""

    def place(problem: Problem) -> tuple[Any, ...]:
        found = re.fullmatch(r"(.*?):(\d+):(\d+)", problem.where, re.DOTALL)
        if found is None:
            return (True, problem.where, 0, 0, problem.path)
        return (False, found[1], int(found[2]), int(found[3]), problem.path)

    return sorted(dict.fromkeys(problems), key=place)


def _known(node: Node, loc: Path) -> tuple[Path, Path]:
    """The part of a location that exists in the tree, and the rest: a union's branch, a key."""
    for count, step in enumerate(loc):
        below = node.child(step)
        if below is None:
            return loc[:count], loc[count:]
        node = below
    return loc, ()


def _problem(error: Any, node: Node, path: Path) -> Problem:
    message, hint = _words(error, node.plain())
    return Problem(node.where, key_path(path), message, hint)


def _words(error: Any, value: Any) -> tuple[str, str]:
    """Message and hint of one finding about one value."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _TYPES:
        return f"expected {_TYPES[kind]}, got {shown(value)}", _type_hint(_TYPES[kind], value)
    if kind in _BOUNDS:
        sign, key = _BOUNDS[kind]
        bound = context[key]
        bound = int(bound) if isinstance(bound, float) and bound.is_integer() else bound
        return f"must be {sign} {bound}, got {shown(value)}", ""
    if kind == "literal_error":
        choices = _choices(context["expected"])
        hint = guess(value, choices, cutoff=0.4).strip() if isinstance(value, str) else ""
        one = "" if len(choices) == 1 else "one of "
        return f"expected {one}{', '.join(choices)}, got {shown(value)}", hint
    if kind in ("too_long", "too_short"):
        number = context.get("max_length", context.get("min_length"))
        few = "at most" if kind == "too_long" else "at least"
        return f"expected {few} {number} items, got {context['actual_length']}", ""
    if kind in ("is_instance_of", "is_subclass_of"):
        return f"expected {context.get('class', 'another type')}, got {shown(value)}", ""
    text = error["msg"]
    return f"{text[:1].lower()}{text[1:]}, got {shown(value)}", ""


def _choices(expected: str) -> list[str]:
    """`a`, `b`, `1` of pydantic's "'a', 'b' or 1"."""
    return [text.strip().strip("'") for text in re.split(r", | or ", expected)]


def _type_hint(wanted: str, value: Any) -> str:
    if isinstance(value, str) and wanted in ("float", "int", "bool"):
        if wanted == "bool" and value.lower() in ("yes", "no", "on", "off"):
            return "write true or false"
        meant = resolve(value) if len(value) < 30 else value
        if isinstance(meant, int | float):
            return "remove the quotes"
    if wanted == "int" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if wanted == "str" and isinstance(value, bool | int | float):
        return f'write "{shown(value)}" if the text is meant'
    if wanted == "list" and value is not None and not isinstance(value, dict | str):
        return f"write [{shown(value)}]"
    if value is None:
        return "remove the key to take the default"
    return ""


def _own_words(error: Any, node: Node, path: Path) -> Problem:
    """What a component's own check said, at the first of the keys in reach that the text names."""
    message = str(error.get("ctx", {}).get("error", error["msg"]))
    for word in re.findall(r"\w+", message):
        if word in node.children:
            return Problem(node.children[word].where, key_path((*path, word)), message)
    return Problem(node.where, key_path(path), message)


def _union(
    branches: list[Any], node: Node, path: Path, loc: Path, hints: dict[str, Any]
) -> Problem:
    """One problem for a value that fits none of several types."""
    value = node.plain()
    telling = [error for _, error in branches if error["type"] in _BOUNDS]
    if len(telling) == 1:
        message, hint = _words(telling[0], value)
        return Problem(node.where, key_path((*path, *loc)), message, hint)
    if len(loc) == 1 and loc[0] in hints:
        limits = range_text(hints[loc[0]])
        wanted = type_text(hints[loc[0]]).replace(" | ", " or ")
        wanted += f" in {limits}" if limits else ""
    else:
        kinds = [_TYPES.get(error["type"], str(rest[0])) for rest, error in branches]
        wanted = " or ".join(dict.fromkeys(kinds))
    return Problem(node.where, key_path((*path, *loc)), f"expected {wanted}, got {shown(value)}")


def _moved(problem: Problem, node: Node, path: Path, loc: Path) -> Problem:
    """A problem of a nested part, told from the whole recipe."""
    steps = [
        int(text) if text.isdigit() else text for text in re.findall(r"[^.\[\]]+", problem.path)
    ]
    inner = node.find(*loc, *steps)
    return Problem(inner.where, key_path((*path, *loc, *steps)), problem.message, problem.hint)


def option_types(cls: Any) -> dict[str, Any]:
    """The options of a pydantic dataclass, by every name they may be given, and their types."""
    hints = typing.get_type_hints(cls, include_extras=True)
    found = {}
    for name, info in cls.__pydantic_fields__.items():
        if info.init is not False:
            alias = info.validation_alias
            found |= dict.fromkeys(getattr(alias, "choices", [alias or name]), hints[name])
    return found
