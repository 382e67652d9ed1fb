"""`elbo:views=2,subset=uniform_t`, `denoising_steps@entropy:steps=2`: estimators as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from dllmzoo.errors import DllmzooError, RecipeError, UsageError
from dllmzoo.recipe.build import build
from dllmzoo.recipe.overrides import value_node


@dataclass(frozen=True)
class Spec:
    """A component and the options that the user has fixed.

    Args:
        text: as written, without the selector.
        part: the component.
        fixed: names of the options given.
    """

    text: str
    part: Any
    fixed: frozenset[str] = frozenset()


def split_specs(texts: Iterable[str]) -> list[str]:
    """The single specs of texts that may hold several, separated by commas.

    A piece that is only `option=value` goes on with the options before it.

    Example:
        >>> split_specs(["elbo:views=2,subset=uniform_t,mean_field"])
        ['elbo:views=2,subset=uniform_t', 'mean_field']
    """
    found: list[str] = []
    for text in texts:
        fresh = True
        for piece in _pieces(text):
            goes_on = "=" in piece and not re.match(r"[^=]*[:@]", piece)
            if goes_on and not fresh:
                found[-1] += f",{piece.strip()}"
            elif piece.strip():
                found.append(piece.strip())
                fresh = False
    return found


def component(kind: str, text: str) -> Spec:
    """The component of a spec without `@`.

    Raises:
        UsageError: no such component, an unknown option, a value out of range; says which spec.
    """
    name, _, options = text.partition(":")
    node: dict[str, Any] = {"name": name.strip()}
    for piece in _pieces(options):
        if not piece.strip():
            continue
        key, equals, value = piece.partition("=")
        if not equals:
            raise UsageError(f"{kind} {text!r}: expected option=value, got {piece.strip()!r}")
        tree, problems = value_node(value, f"{kind} {text}")
        if problems:
            raise UsageError(f"{kind} {text!r}: {problems[0].message}")
        node[key.strip()] = tree.plain()
    try:
        return Spec(text, build(kind, node), frozenset(node) - {"name"})
    except RecipeError as error:
        said = "; ".join(
            " ".join(filter(None, (each.path.partition(".")[2], each.message, each.hint)))
            for each in error.problems
        )
        raise UsageError(f"{kind} {text!r}: {said}") from error
    except DllmzooError as error:
        raise UsageError(f"{kind} {text!r}: {error}") from error


def with_views(spec: Spec, most: int) -> Any:
    """The likelihood with as many forwards as it can have up to `most`; None if it needs more.

    Turned is whichever whole-number option changes `num_forwards` and was not fixed.
    """
    best = spec.part
    if best.num_forwards is None:
        return best
    for name, _ in whole_numbers(spec):
        for value in range(1, most + 1):
            made = changed(spec.part, name, value)
            if made is not None and _better(made.num_forwards, best.num_forwards, most):
                best = made
    return best if best.num_forwards is None or best.num_forwards <= most else None


def variants(spec: Spec, views: Iterable[int]) -> list[Any]:
    """The likelihood at each number of forwards that it can have; itself if it cannot have any."""
    made = [with_views(spec, most) for most in sorted(set(views))]
    kept = [part for i, part in enumerate(made) if part is not None and part not in made[:i]]
    return kept or [spec.part]


def with_steps(spec: Spec, steps: Iterable[int], num_steps: int) -> list[Any]:
    """The selector at each number of steps up to all; itself if it has no such option."""
    if not hasattr(spec.part, "steps") or "steps" in spec.fixed:
        return [spec.part]
    wanted = sorted({min(each, num_steps) for each in steps})
    return [part for each in wanted if (part := changed(spec.part, "steps", each)) is not None]


def whole_numbers(spec: Spec) -> Iterator[tuple[str, int]]:
    """Options of a component that hold a whole number and were not fixed, with their values."""
    for field in fields(spec.part):
        value = getattr(spec.part, field.name)
        if type(value) is int and field.name not in spec.fixed:
            yield field.name, value


def changed(part: Any, name: str, value: Any) -> Any:
    """The component with another value of one option; None if the value is refused."""
    try:
        return replace(part, **{name: value})
    except (ValueError, TypeError):
        return None


def _better(count: int | None, best: int | None, most: int) -> bool:
    """Whether `count` forwards come nearer to `most` from below than `best` does."""
    if count is None or count > most:
        return False
    return best is None or best > most or count > best


def _pieces(text: str) -> list[str]:
    """Text cut at commas that stand in no bracket."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return pieces
