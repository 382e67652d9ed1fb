"""`loss.clip_low=0.1`: changes to a recipe, from the command line or its `smoke` block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dllmzoo.errors import DllmzooError, Problem, RecipeError
from dllmzoo.recipe._explain import shown
from dllmzoo.recipe.document import Node, survey
from dllmzoo.recipe.plain import plain_value
from dllmzoo.zoo import ZOO

Path = tuple[str, ...]

SECTIONS = frozenset({"optimizer", "train", "evaluate", "sft"})
PARTS = frozenset(ZOO) - {"schedule"}


@dataclass(frozen=True)
class Override:
    """One change: a dotted path and the value that goes there."""

    path: Path
    node: Node

    @property
    def names_part(self) -> bool:
        """Whether it may replace a part by another component, which must come first."""
        return self.path[-1] == "name" or (len(self.path) == 1 and self.path[0] in PARTS)


def parse_overrides(
    overrides: Iterable[str] | Mapping[str, Any], problems: list[Problem]
) -> list[Override]:
    """Changes as the command line writes them, `key=value`, or as a mapping of dotted keys.

    Only the first `=` splits; the value is YAML: `betas=[0.9,0.99]`, `lora.rank=8`,
    `loss={name: stable_drl}`, `title="a = b"`.

    Args:
        overrides: in the order given.
        problems: grows.
    """
    found = []
    if isinstance(overrides, str):
        overrides = [overrides]
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            node = Node.of(value, f"override {key}")
            _keep(str(key), _renamed(node, f"override {key}"), found, problems)
        return found
    for text in overrides:
        key, equals, value = str(text).partition("=")
        key = key.strip()
        if not equals:
            problem = Problem(f"override {text}", "", "expected key=value", "loss.clip_low=0.1")
            problems.append(problem)
            continue
        node, wrong = value_node(value, f"override {key}")
        if wrong:
            problems += [replace(each, path=key) for each in wrong]
        else:
            _keep(key, node, found, problems)
    return found


def value_node(text: str, source: str) -> tuple[Node, list[Problem]]:
    """The tree of a value on the command line; all of it stands at one place."""
    if not text.strip():
        return Node(None, source), []
    node, problems = survey(text, source)
    placed = [replace(each, where=source) for each in problems]
    return _renamed(node, source), placed


def smoke_overrides(smoke: Node, problems: list[Problem]) -> list[Override]:
    """The changes a `smoke` block asks for: dotted keys, or a mapping like the recipe's own."""
    found: list[Override] = []
    for key, node in smoke.children.items():
        _keep(key, node, found, problems)
    return found


def apply(
    recipe: Node, overrides: Iterable[Override], problems: list[Problem]
) -> tuple[Node, list[str]]:
    """The recipe with every change made, and what the user should know.

    Names of parts come first, whatever the order given: `loss.clip_low=0.1 loss=stable_drl` sets
    `clip_low` of `stable_drl`. Another component drops the options of the one before. Mappings
    are joined key by key in a section or a part, and replace what was there further down.
    """
    notices: list[Dropped] = []
    ordered = sorted(overrides, key=lambda each: not each.names_part)
    for override in ordered:
        try:
            recipe = _put(recipe, override.path, override.node, (), notices)
        except RecipeError as error:
            problems += error.problems
    set_again = {override.path for override in ordered}
    return recipe, [said for each in notices if (said := each.said(set_again))]


def _keep(key: str, node: Node, found: list[Override], problems: list[Problem]) -> None:
    path = tuple(key.split("."))
    if all(path):
        found.append(Override(path, node))
    else:
        hint = "write a dotted path: loss.clip_low=0.1"
        problems.append(Problem(node.where, "", f"{key!r} is not the name of a key", hint))


def _renamed(node: Node, source: str) -> Node:
    """The same tree, every node of it standing at `source`."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _renamed(child, source) for key, child in value.items()}
    elif isinstance(value, tuple):
        value = tuple(_renamed(child, source) for child in value)
    return Node(value, source)


def _put(tree: Node, path: Path, node: Node, above: Path, notices: list[Dropped]) -> Node:
    """The tree with `node` at `path`; `above` is where the tree stands."""
    key, here = path[0], (*above, path[0])
    old = tree.children.get(key)
    if len(path) > 1:
        inner = _opened(old, here, node)
        if path[1:] == ("name",):
            new = _named(inner, node, here, notices)
        else:
            new = _put(inner, path[1:], node, here, notices)
    elif not above and key in PARTS:
        new = _part(old, node, here, notices)
    elif not above and key in SECTIONS and node.mapping and old is not None:
        new = _joined(_opened(old, here, node), node, here, notices)
    else:
        new = node
    return replace(tree, value={**tree.children, key: new})


def _part(old: Node | None, node: Node, here: Path, notices: list[Dropped]) -> Node:
    """A part after an override of the part itself: its name, or some options."""
    if node.value is None or old is None or old.value is None:
        return node
    if isinstance(node.value, str):
        return _named(_opened(old, here, node), node, here, notices)
    if not node.mapping:
        return node
    inner = _opened(old, here, node)
    if "name" in node.children:
        inner = _named(inner, node.children["name"], here, notices)
    rest = {key: child for key, child in node.children.items() if key != "name"}
    return _joined(inner, replace(node, value=rest), here, notices)


def _joined(old: Node, node: Node, here: Path, notices: list[Dropped]) -> Node:
    for key, child in node.children.items():
        old = _put(old, (key,), child, here, notices)
    return old


def _opened(old: Node | None, here: Path, node: Node) -> Node:
    """What stands at `here`, as a mapping that can take a further key."""
    if old is None or old.value is None:
        return Node({}, node.source, node.line, node.column, node.key_line, node.key_column)
    if old.mapping:
        return old
    has_name = here[0] in PARTS or here[:2] in (("sft", "schedule"), ("evaluate", "sampler"))
    if isinstance(old.value, str) and has_name:
        return replace(old, value={"name": replace(old, key_line=0, key_column=0)})
    if not isinstance(old.value, str | int | float | tuple):
        return replace(old, value=Node.of(plain_value(old.value), old.source).value)
    message = f"{'.'.join(here)} is {shown(old.plain())}, which has no keys"
    raise RecipeError([Problem(node.where, ".".join(here), message)])


def _named(old: Node, name: Node, here: Path, notices: list[Dropped]) -> Node:
    """The part `old` under another name: without its options, if it is another component."""
    before = old.children.get("name")
    if before is None or not _differs(here, before.value, name.value):
        return replace(old, value={"name": name, **_without_name(old)})
    dropped = list(_without_name(old))
    notices.append(Dropped(here, before.value, name.value, tuple(dropped)))
    return replace(old, value={"name": name})


@dataclass(frozen=True)
class Dropped:
    """Options that went with the component they belonged to."""

    here: Path
    before: object
    after: object
    options: tuple[str, ...]

    def said(self, set_again: set[Path]) -> str:
        """What the user should know; nothing about what another change sets anyway."""
        gone = [name for name in self.options if (*self.here, name) not in set_again]
        if not gone:
            return ""
        count = "1 option was" if len(gone) == 1 else f"{len(gone)} options were"
        return (
            f"{'.'.join(self.here)}: name changed from {self.before} to {self.after}: "
            f"its {count} dropped: {', '.join(gone)}"
        )


def _without_name(node: Node) -> dict[str, Node]:
    return {key: child for key, child in node.children.items() if key != "name"}


def _differs(here: Path, old: Any, new: Any) -> bool:
    """Whether two names mean two components; an alias is the same one."""
    if old == new or not isinstance(old, str) or not isinstance(new, str):
        return old != new
    registry = ZOO.get(here[0]) if len(here) == 1 else None
    if registry is None:
        return True
    try:
        return registry.canonical(old) != registry.canonical(new)
    except DllmzooError:
        return True
