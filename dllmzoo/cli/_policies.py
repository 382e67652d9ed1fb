"""A trained model as `eval` and `generate` need it: network, text codec, recipe."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllmzoo.cli import _kinds as kinds
from dllmzoo.cli import _output as out
from dllmzoo.errors import UsageError

if TYPE_CHECKING:
    from dllmzoo.recipe import Recipe
    from dllmzoo.training.prompts import Codec

RECIPE_FILE = "recipe.resolved.yaml"

MAIN_RECIPE = "egspo_sa_sudoku"
"""Says how a model is used where nothing else does."""


@dataclass(frozen=True)
class Source:
    """A run or a model on the command line.

    Args:
        spec: what the user typed.
        weights: what `load_model` reads.
        run: the run folder it belongs to, if any.
    """

    spec: str
    weights: str
    run: Path | None


def source_of(spec: str) -> Source:
    """Where the weights of a run, a folder of a run, a model folder or a card are.

    Raises:
        UsageError: a run without final weights, or nothing of that name.
    """
    path = Path(spec)
    if (path / RECIPE_FILE).is_file():
        from dllmzoo.training.export import weights_of

        return Source(spec, weights_of(spec), path)
    if not path.is_dir():
        refuse_what_is_nowhere(spec)
    parent = path.resolve().parent
    return Source(spec, spec, parent if (parent / RECIPE_FILE).is_file() else None)


def refuse_what_is_nowhere(spec: str) -> None:
    """Raise unless a word that is no folder may be a card or a hub id.

    A hub id is `owner/name`; a path below a folder that is here was meant as a path.

    Raises:
        UsageError: names what is nearest.
    """
    cards = kinds.summaries("weights")
    path = Path(spec)
    if spec in cards:
        return
    if path.exists():
        raise UsageError(f"{spec} is a file; give a run folder or a model folder")
    if path.parent != Path(".") and path.parent.is_dir():
        beside = sorted(each.name for each in path.parent.iterdir() if each.is_dir())
        raise UsageError(
            f"there is no folder {spec}.{kinds.guess(path.name, beside)} {path.parent} holds: "
            f"{', '.join(beside) or 'no folder'}"
        )
    if spec.startswith((".", "/", "~")):
        raise UsageError(f"there is no folder {spec}")
    if spec.count("/") != 1:
        raise UsageError(
            f"{spec!r} is neither a folder, nor a card, nor a hub id (owner/name)."
            f"{kinds.guess(spec, cards)} Cards: {', '.join(cards)}"
        )


def recipe_for(
    source: Source, recipe: str | None, changes: Sequence[str], *, task: str | None = None,
    quiet: bool = False,
) -> Recipe:  # fmt: skip
    """The recipe whose task and sampler are used.

    It is the one the user names, the run's own, or the first shipped one that starts from the
    model (a note says which, unless `quiet`); with only a task, the sampler `low_confidence` as
    it is by default.

    Raises:
        UsageError: nothing says which task.
        RecipeError: the recipe or a change does not fit.
    """
    from dllmzoo.recipe import load

    wanted = [*([] if task is None else [f"task={task}"]), *changes]
    if recipe is not None:
        return load(recipe, wanted)
    if source.run is not None:
        return load(source.run / RECIPE_FILE, wanted)
    if (known := recipe_of_weights(source.spec)) is not None:
        if not quiet and out.is_main_process():
            out.warn(f"note: task and sampler are those of the recipe {known}")
        return load(known, wanted)
    if task is None and not any(word.startswith(("task=", "task.name=")) for word in changes):
        raise UsageError(
            f"{source.spec} is no run, so nothing says which task and sampler to use; name a "
            f"recipe after it, or a task with --task"
        )
    return load(bare_recipe(source.weights), wanted)


def bare_recipe(weights: str, task: str = "sudoku") -> dict[str, Any]:
    """The shortest recipe around a model: default task and sampler, for changes to start from."""
    return {
        "format": 1,
        "title": f"of the command line, for {weights}",
        "stage": "sft",
        "seed": 0,
        "model": {"weights": weights},
        "task": {"name": task},
        "sampler": {"name": "low_confidence"},
        "output": "runs/unused",
    }


def recipe_of_weights(card: str) -> str | None:
    """A shipped recipe that starts from a card: the main one if it does, else the first."""
    for name in sorted(kinds.summaries("recipe"), key=lambda name: not name.endswith(MAIN_RECIPE)):
        model = kinds.entry("recipe", name).content.get("model")
        if isinstance(model, dict) and model.get("weights") == card:
            return name
    return None


def load_policy(source: Source, dtype: str) -> tuple[Any, Codec]:
    """The network on the best device of this process, and its codec."""
    from dllmzoo.models._load import load_model, load_tokenizer
    from dllmzoo.training.prompts import Codec

    device = best_device()
    policy = load_model(source.weights, dtype=dtype).to(device)
    limit = getattr(policy.config, "max_sequence_length", None)
    tokenizer = load_tokenizer(source.weights)
    return policy, Codec(tokenizer, policy.mask_id, tuple(policy.stop_ids), limit, device)


def fingerprint(policy: Any) -> str:
    """Two networks with one fingerprint hold the same weights, as far as samples of them tell."""
    import hashlib

    digest = hashlib.blake2b(digest_size=16)
    for name, value in policy.named_parameters():
        flat = value.detach().reshape(-1)
        part = flat[:: max(len(flat) // 1024, 1)].float().cpu()
        digest.update(f"{name} {tuple(value.shape)}".encode() + part.numpy().tobytes())
    return digest.hexdigest()


def best_device() -> str:
    """An accelerator of this process, or the CPU."""
    import torch

    if torch.cuda.is_available():
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def sampler_of(recipe: Recipe, changes: Sequence[str]) -> Any:
    """The sampler of evaluations; the recipe's `sampler` where the user has just changed that one.

    Raises:
        UsageError: it asks no model.
    """
    from dllmzoo.training.evaluate import evaluator

    if any(word.startswith(("sampler=", "sampler.")) for word in changes):
        recipe = replace(recipe, evaluate=replace(recipe.evaluate, sampler=None))
    return evaluator(recipe)


def changed(sampler: Any, **options: Any) -> Any:
    """The sampler with other options; those of value None stay.

    Raises:
        UsageError: an option does not fit the sampler.
    """
    from pydantic import ValidationError

    wanted = {name: value for name, value in options.items() if value is not None}
    try:
        return replace(sampler, **wanted) if wanted else sampler
    except (TypeError, ValidationError) as error:
        names = ", ".join(wanted)
        raise UsageError(f"the sampler cannot take {names} so: {first_line(error)}") from error


def evaluated(sampler: Any, steps: int | None, **options: Any) -> Any:
    """The sampler as evaluation uses it: see `training.evaluate.answering`.

    Raises:
        UsageError: the sampler cannot be used so.
    """
    from pydantic import ValidationError

    from dllmzoo.training.evaluate import answering, steps_field

    try:
        return answering(sampler, steps, **options)
    except (TypeError, ValidationError) as error:
        values = {steps_field(sampler): steps, **options}
        asked = ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
        raise UsageError(f"the sampler cannot take {asked}: {first_line(error)}") from error


def with_steps(sampler: Any, steps: int | None, **options: Any) -> Any:
    """The sampler with other options and number of denoising steps, as `evaluate.steps` sets it.

    Raises:
        UsageError: the sampler takes no such number, or an option does not fit it.
    """
    from dllmzoo.training.evaluate import steps_field

    return changed(sampler, **{steps_field(sampler): steps}, **options)


def first_line(error: Exception) -> str:
    """What an error says, without the lines around it."""
    details = getattr(error, "errors", None)
    if details is not None:
        return "; ".join(
            ": ".join([*map(str, each["loc"]), each["msg"].removeprefix("Value error, ")])
            for each in details()
        )
    return str(error).partition("\n")[0]
