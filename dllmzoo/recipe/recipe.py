"""A recipe: what a run is made of, read from YAML or Python, checked and built."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from dllmzoo import plugins as user
from dllmzoo.errors import DllmzooError, Problem, RecipeError, UnknownNameError
from dllmzoo.recipe import overrides as changes
from dllmzoo.recipe._explain import in_order, shown, unknown
from dllmzoo.recipe.build import FAILED, fill, named_class, part
from dllmzoo.recipe.document import Node, read_text, survey
from dllmzoo.recipe.packaged import recipe_path
from dllmzoo.recipe.sections import STRICT, Evaluate, Model, Optimizer, Sft, Train
from dllmzoo.zoo import MODELS

FORMAT = 1
"""Version of the recipe format that this library writes and reads."""

PARTS = ("task", "sampler", "selector", "likelihood", "advantage", "loss")
SECTIONS = {"optimizer": Optimizer, "train": Train, "evaluate": Evaluate, "sft": Sft}
NEEDED = {
    "rl": ("task", "sampler", "likelihood", "advantage", "loss"),
    "sft": ("task", "sampler"),
}
"""Parts that a stage cannot do without; supervised training evaluates with the sampler."""

RL_ONLY = ("selector", "likelihood", "advantage", "loss")
"""Parts that supervised training does not read."""


@checked(frozen=True, config=STRICT)
class Head:
    """The keys at the top of a recipe that are plain values.

    Args:
        format: version of the recipe format.
        title: one line for people.
        method: the card in registry/methods/ that this recipe follows.
        stage: `rl`, reinforcement learning; `sft`, supervised training.
        seed: of everything random, >= 0.
        plugins: files of your own components, relative to the recipe, or modules.
        output: the run folder.
        smoke: changes for a run of seconds, as `--smoke` asks for.
    """

    format: int = FORMAT
    title: str = ""
    method: str = ""
    stage: Literal["rl", "sft"] = "rl"
    seed: Annotated[int, Field(ge=0)] = 0
    plugins: tuple[str, ...] = ()
    output: str = ""
    smoke: dict[str, Any] = field(default_factory=dict)


HEAD = tuple(each.name for each in dataclasses.fields(Head))
KEYS = (
    "format", "title", "method", "stage", "seed", "plugins", "model", *PARTS, *SECTIONS, "output",
    "smoke",
)  # fmt: skip
"""Every key at the top of a recipe, in the order in which it is written."""


@dataclass(frozen=True)
class Recipe:
    """Checked sections and built parts; equal recipes make equal runs.

    Args:
        title: one line for people.
        method: card of the method.
        stage: `rl` or `sft`.
        seed: of everything random.
        plugins: files (absolute) and modules of the user's components.
        model: which network.
        task: built part; None only in a recipe that needs none, as every part.
        sampler: makes answers.
        selector: chooses denoising steps.
        likelihood: scores answers.
        advantage: judges them.
        loss: moves the policy.
        optimizer: how the weights move.
        train: how much and how long.
        evaluate: how it is measured.
        sft: how supervised training masks.
        output: the run folder.
        smoke: the smoke block as written.
        name: of the file, without suffix.
        folder: of the file; plug-ins are relative to it.
        document: the tree as read, changes included; knows where every key stands.
        notices: what the user should know, one line each.
    """

    title: str
    method: str
    stage: str
    seed: int
    plugins: tuple[str, ...]
    model: Model
    task: Any
    sampler: Any
    selector: Any
    likelihood: Any
    advantage: Any
    loss: Any
    optimizer: Optimizer
    train: Train
    evaluate: Evaluate
    sft: Sft
    output: str
    smoke: dict[str, Any]
    name: str = field(compare=False)
    folder: Path = field(compare=False)
    document: Node = field(compare=False, repr=False)
    notices: list[str] = field(compare=False, default_factory=list)

    def where(self, *path: str | int) -> str:
        """Place of a key, or of the nearest one above it that is written."""
        return self.document.find(*path).where


Source = str | Path | Mapping[str, Any] | Recipe


def load(
    source: Source, overrides: Iterable[str] | Mapping[str, Any] = (), *, smoke: bool = False
) -> Recipe:
    """Read a recipe, apply changes, build its parts.

    Args:
        source: a YAML file, the name of a packaged recipe, a mapping (whose parts may be built
            objects already), or a recipe.
        overrides: `key=value` changes; they win over the smoke block.
        smoke: apply the recipe's `smoke` block.

    Raises:
        RecipeError: every problem of the recipe and of the overrides at once.

    Example:
        >>> load("egspo_sa_sudoku", ["train.rounds=2"]).train.rounds
        2
    """
    recipe, problems = attempt(source, overrides, smoke=smoke)
    if problems or recipe is None:
        raise RecipeError(problems)
    return recipe


def attempt(
    source: Source, overrides: Iterable[str] | Mapping[str, Any] = (), *, smoke: bool = False
) -> tuple[Recipe | None, list[Problem]]:
    """As `load`, with the problems handed back beside what could be built in spite of them.

    A part that could not be built is None; a bad option has its default. None, if the source is
    no mapping at all.
    """
    if isinstance(source, Recipe) and not overrides and not smoke:
        return source, []
    problems: list[Problem] = []
    try:
        tree, name, folder = _opened(source, problems)
    except RecipeError as error:
        return None, in_order([*problems, *error.problems])
    wanted = changes.parse_overrides(overrides, problems)
    short = changes.smoke_overrides(tree.children.get("smoke", Node({})), problems)
    if not smoke and short:
        problems += _smoke_problems(tree, short, name, folder)
    if smoke:  # what its parts replace is no news: the recipe says it
        tree, _ = changes.apply(tree, short, problems)
    tree, notices = changes.apply(tree, wanted, problems)
    if smoke and not short:
        notices.append("the recipe has no smoke block; it runs as it stands")
    recipe = _made(tree, name, folder, problems, notices)
    return recipe, in_order(problems)


def _opened(source: Source, problems: list[Problem]) -> tuple[Node, str, Path]:
    """The tree of a source, its name and its folder."""
    if isinstance(source, Recipe):
        values = {key: getattr(source, key) for key in KEYS if key != "format"}
        return Node.of(values, source.name), source.name, source.folder
    if isinstance(source, Mapping):
        return Node.of(source), "recipe", Path.cwd()
    path = _file(source)
    tree, found = survey(read_text(path), str(source) if str(source) == str(path) else str(path))
    problems += found
    if not tree.mapping:
        message = f"a recipe is a mapping of keys, got {shown(tree.plain())}"
        raise RecipeError([*problems, Problem(tree.where, "", message)])
    if not tree.value and found:
        raise RecipeError(found)
    return tree, path.stem, path.parent


def _file(source: str | Path) -> Path:
    path = Path(source)
    if os.path.exists(path):
        return path
    try:
        return recipe_path(str(source))
    except UnknownNameError as error:
        _, _, hint = str(error).partition("; ")
        message = "there is no such file, nor a packaged recipe of that name"
        raise RecipeError([Problem(str(source), "", message, hint)]) from None


def _smoke_problems(
    tree: Node, short: list[changes.Override], name: str, folder: Path
) -> list[Problem]:
    """What would be wrong with the smoke block alone, whether or not it is asked for."""
    before: list[Problem] = []
    _made(tree, name, folder, before, [])
    after: list[Problem] = []
    changed, _ = changes.apply(tree, short, after)
    _made(changed, name, folder, after, [])
    return [problem for problem in after if problem not in before]


def _made(
    tree: Node, name: str, folder: Path, problems: list[Problem], notices: list[str]
) -> Recipe:
    """The recipe that a tree describes, as far as it can be built."""
    nodes = {key: child for key, child in tree.children.items() if key in KEYS}
    for key, child in tree.children.items():
        if key not in KEYS:
            problems.append(unknown(child.where, (key,), "a recipe", KEYS))
    top = {key: child for key, child in nodes.items() if key in HEAD and child.value is not None}
    head = fill(Head, replace(tree, value=top), (), problems, "a recipe")
    head = Head() if head is FAILED else head
    _check_format(nodes, problems)
    plugins = _plugins(nodes.get("plugins"), folder, problems)
    model = _model(nodes.get("model"), tree, problems)
    parts = {key: _part(key, nodes.get(key), tree, nodes, head.stage, problems) for key in PARTS}
    sections = {key: _section(key, cls, nodes.get(key), problems) for key, cls in SECTIONS.items()}
    sections["sft"] = _sft(sections["sft"], nodes, problems)
    if head.stage == "sft" and (idle := [key for key in RL_ONLY if parts[key] is not None]):
        notices.append(f"stage: sft does not read {', '.join(idle)}")
    return Recipe(
        title=head.title, method=head.method, stage=head.stage, seed=head.seed, plugins=plugins,
        model=model, output=head.output or f"runs/{name}", smoke=head.smoke, name=name,
        folder=folder, document=tree, notices=notices, **parts, **sections,
    )  # fmt: skip


def _check_format(nodes: Mapping[str, Node], problems: list[Problem]) -> None:
    node = nodes.get("format")
    if node is None or type(node.value) is not int or node.value == FORMAT:
        return
    message = f"format {node.value} is not read here, only format {FORMAT}"
    hint = f"write format: {FORMAT} and rename what `dllmzoo check` then reports"
    if node.value > FORMAT:
        hint = "a later release of dllmzoo wrote it: pip install --upgrade dllmzoo"
    problems.append(Problem(node.where, "format", message, hint))


def _plugins(node: Node | None, folder: Path, problems: list[Problem]) -> tuple[str, ...]:
    """Import the plug-ins; files as absolute paths, so that a run folder finds them too."""
    loaded = []
    for i, item in enumerate(
        node.value if node is not None and isinstance(node.value, tuple) else ()
    ):
        if not isinstance(item.value, str):
            continue
        try:
            user.load_plugin(item.value, folder)
        except DllmzooError as error:
            problems.append(Problem(item.where, f"plugins[{i}]", str(error)))
        is_file = item.value.endswith(".py")
        loaded.append(str((folder / item.value).resolve()) if is_file else item.value)
    return tuple(loaded)


def _model(node: Node | None, tree: Node, problems: list[Problem]) -> Model:
    if node is None or node.value is None:
        hint = "model: {name: llada, weights: ...}"
        problems.append(Problem(tree.where, "model", "is missing", hint))
        return Model()
    if isinstance(node.value, str):
        node = replace(node, value={"name": replace(node, key_line=0, key_column=0)})
    named = node.children.get("name")
    if named is not None and isinstance(named.value, str) and named.value not in MODELS.names():
        named_class("model", node, ("model",), problems)
    return _section("model", Model, node, problems)


def _part(
    key: str, node: Node | None, tree: Node, nodes: Mapping[str, Node], stage: str,
    problems: list[Problem],
) -> Any:  # fmt: skip
    if node is not None and node.value is not None:
        made = part(key, node, (key,), problems)
        return None if made is FAILED else made
    known_stage = "stage" not in nodes or nodes["stage"].value == stage
    if key in NEEDED[stage] and known_stage:
        place = tree.where if node is None else node.where
        problems.append(Problem(place, key, "is missing", f"stage: {stage} needs the part `{key}`"))
    return None


def _section(key: str, cls: Any, node: Node | None, problems: list[Problem]) -> Any:
    if node is None or node.value is None:
        return cls()
    if isinstance(node.value, cls):
        return node.value
    if not node.mapping:
        message = f"expected a mapping, got {shown(node.plain())}"
        problems.append(Problem(node.where, key, message))
        return cls()
    made = fill(cls, node, (key,), problems, key, finite=True)
    return cls() if made is FAILED else made


def _sft(sft: Sft, nodes: Mapping[str, Node], problems: list[Problem]) -> Sft:
    """The section with its schedule built."""
    node = nodes["sft"].children.get("schedule") if "sft" in nodes else None
    node = Node(sft.schedule) if node is None else node
    made = part("schedule", node, ("sft", "schedule"), problems)
    return sft if made is FAILED else replace(sft, schedule=made)
