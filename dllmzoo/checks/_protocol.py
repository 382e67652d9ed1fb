"""Parts that leave out what their protocol makes them say: a run would stop in its first round."""

from __future__ import annotations

from typing import Any

from dllmzoo import protocols
from dllmzoo.checks._found import Found
from dllmzoo.recipe.plain import name_of
from dllmzoo.recipe.recipe import Recipe

KINDS: dict[str, type] = {
    "task": protocols.Task,
    "sampler": protocols.Sampler,
    "selector": protocols.Selector,
    "likelihood": protocols.Likelihood,
    "advantage": protocols.Advantage,
    "loss": protocols.Loss,
}
FIELDS = {"sampler": ("answer_length",)}
"""What is read of a kind beside its protocol's names."""


def check_protocols(recipe: Recipe, found: Found) -> None:
    """Class variables, properties and methods that the parts of a recipe lack."""
    read = KINDS if recipe.stage == "rl" else {"task": KINDS["task"], "sampler": KINDS["sampler"]}
    for kind, protocol in read.items():
        _part(found, kind, kind, getattr(recipe, kind), protocol)
    _part(found, "sampler", "evaluate.sampler", recipe.evaluate.sampler, KINDS["sampler"])


def lacks(part: Any, protocol: type) -> list[str]:
    """Names that the protocol has and the part does not, in the protocol's order."""
    names = [*getattr(protocol, "__annotations__", {})]
    names += [name for name in vars(protocol) if not name.startswith("_") and name not in names]
    return [name for name in names if not hasattr(part, name)] + (
        ["__call__"] if "__call__" in vars(protocol) and not callable(part) else []
    )


def _part(found: Found, kind: str, key: str, part: Any, protocol: type) -> None:
    if part is None or not found.sound(key):
        return
    missing = [name for name in FIELDS.get(kind, ()) if not hasattr(part, name)]
    if missing := lacks(part, protocol) + missing:
        found.add(
            key,
            f"{kind} {name_of(part)} does not have {', '.join(missing)}, which every {kind} must",
            f"add what dllmzoo.protocols.{protocol.__name__} says, such as "
            f"`{missing[0]}` in the class {type(part).__name__}",
        )
