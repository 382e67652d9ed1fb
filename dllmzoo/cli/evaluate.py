"""`dllmzoo eval`: greedy answers to held-out examples, every answer and setting written down."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dllmzoo.cli import _output as out
from dllmzoo.cli import _policies as policies
from dllmzoo.cli import _recipes as recipes
from dllmzoo.cli._app import app
from dllmzoo.errors import UsageError

if TYPE_CHECKING:
    from dllmzoo.protocols import Ratio
    from dllmzoo.recipe import Recipe
    from dllmzoo.records import Rewards
    from dllmzoo.training.evaluate import Evaluation

FORMAT = 1
OUTCOMES = ("value", "abstain", "error", "timeout")


@app.command("eval")
def evaluate_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|RUN",
            help="A run folder, a model folder, an adapter, a card or a hub id.",
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE|KEY=VALUE",
            help="The recipe whose task and sampler are used (default: the run's), and changes.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Another task than the recipe's.", show_default=False)
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(min=1, help="Held-out examples. Default: the recipe's.", show_default=False),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Denoising steps. Default: the recipe's.", show_default=False),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Answers at a time.", show_default=False)
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or bfloat16.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="The JSON-lines file. Default: a new one in `evaluations/` of the run or here.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Answer held-out examples greedily and write one line for each."""
    named, changes = recipes.split_words(words or ())
    if len(named) > 1:
        raise UsageError(f"one recipe at a time, not {' and '.join(named)}")
    source = policies.source_of(model)
    recipe = policies.recipe_for(source, named[0] if named else None, changes, task=task)
    for notice in recipe.notices:
        out.warn(f"note: {notice}")
    if any(word.startswith("sampler.temperature=") for word in changes):
        out.warn("note: eval is greedy; sampler.temperature is read by `dllmzoo train` only")
    file = output or new_file(source, recipe)
    if file.exists() and not overwrite:
        raise UsageError(f"{file} is there already; replace it with --overwrite")
    result, sampler = answer(
        source, recipe, policies.sampler_of(recipe, changes), examples=examples, steps=steps,
        batch=batch, dtype=dtype,
    )  # fmt: skip
    if not out.is_main_process():
        return
    ratios = recipe.task.metrics(result.texts, result.examples)
    rewards = recipe.task.reward(result.texts, result.examples)
    settings = settings_of(source, recipe, sampler, result, rewards)
    write(file, settings, lines(recipe, result, ratios, rewards))
    if as_json:
        out.say_json({**settings, "file": str(file)})
        return
    report(settings, file)
    warn_of_other_settings(source, sampler)


def answer(
    source: policies.Source, recipe: Recipe, sampler: Any, *, examples: int | None,
    steps: int | None, batch: int | None, dtype: str | None,
) -> tuple[Evaluation, Any]:  # fmt: skip
    """Every example answered once, by all processes together, and the sampler that did it."""
    from dllmzoo.training.evaluate import evaluate, greedy

    options = recipe.evaluate
    sampler = policies.with_steps(greedy(sampler), steps or options.steps)
    held_out = recipe.task.test(examples or options.examples)
    if not held_out:
        raise UsageError("the task has no held-out examples")
    policy, codec = policies.load_policy(source, dtype or recipe.model.dtype)
    accelerator = None
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from dllmzoo.training.setup import join_processes

        accelerator = join_processes()
    result = evaluate(
        policy, codec, recipe.task, sampler, examples=held_out, batch=batch or options.batch,
        accelerator=accelerator,
    )  # fmt: skip
    return result, sampler


def new_file(source: policies.Source, recipe: Recipe) -> Path:
    """A name that no file has: `RUN/evaluations/sudoku-1.jsonl`."""
    from dllmzoo.recipe.plain import name_of

    folder = (source.run or Path(".")) / "evaluations"
    number = 1
    while (file := folder / f"{name_of(recipe.task)}-{number}.jsonl").exists():
        number += 1
    return file


def lines(
    recipe: Recipe, result: Evaluation, ratios: dict[str, Ratio], rewards: Rewards
) -> list[dict[str, Any]]:
    """One mapping an example: `id prompt text solved metrics reward rewards example`."""
    made = []
    for x, (text, example) in enumerate(zip(result.texts, result.examples, strict=True)):
        parts = {
            name: round(float(rewards.part_XC[x, c]), 6)
            if int(rewards.outcome_XC[x, c]) == 0
            else OUTCOMES[int(rewards.outcome_XC[x, c])]
            for c, name in enumerate(rewards.names)
        }
        counted = bool(rewards.counted_X[x])
        made.append(
            {
                "id": example.get("id", x),
                "prompt": recipe.task.prompt(example),
                "text": text,
                "solved": result.solved[x],
                "metrics": {
                    name: ratio.hits[x] / ratio.outof[x] if ratio.outof[x] else None
                    for name, ratio in ratios.items()
                },
                "reward": round(float(rewards.total_X[x]), 6) if counted else None,
                "rewards": parts,
                "example": dict(example),
            }
        )
    return made


def settings_of(
    source: policies.Source, recipe: Recipe, sampler: Any, result: Evaluation, rewards: Rewards
) -> dict[str, Any]:
    """All that was set and all that came out, without the answers."""
    from dllmzoo.recipe.plain import plain_part
    from dllmzoo.training.manifest import versions

    counted = rewards.counted_X
    reward = float(rewards.total_X[counted].mean()) if bool(counted.any()) else None
    return {
        "format": FORMAT,
        "model": source.spec,
        "weights": source.weights,
        "examples": len(result.examples),
        "metrics": result.metrics,
        "primary": recipe.task.primary,
        "reward": reward,
        "rewards_not_counted": int((~counted).sum()),
        "forwards_per_answer": result.forwards / len(result.examples),
        "task": plain_part(recipe.task),
        "sampler": plain_part(sampler),
        "device": policies.best_device().partition(":")[0],
        "versions": versions(),
    }


def write(file: Path, settings: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """`NAME.jsonl` with the answers and `NAME.settings.json` beside it.

    Raises:
        UsageError: the folder cannot be written to.
    """
    from dllmzoo.training.files import write_bytes, write_json

    text = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    try:
        write_bytes(file, text.encode())
        write_json(settings_file(file), settings)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error


def settings_file(file: Path) -> Path:
    """Where the settings of an answer file are."""
    return file.with_name(f"{file.name.removesuffix('.jsonl')}.settings.json")


def report(settings: dict[str, Any], file: Path) -> None:
    """The metrics as a table, and where the answers are."""
    metrics = settings["metrics"]
    rows = []
    for name, value in metrics.items():
        if name.endswith(("_low", "_high")):
            continue
        low, high = metrics.get(f"{name}_low"), metrics.get(f"{name}_high")
        interval = "" if low is None or high is None else f"{low:.4f} to {high:.4f}"
        rows.append((name, "nothing counts" if value is None else f"{value:.4f}", interval))
    if settings["reward"] is not None:
        rows.append(("reward", f"{settings['reward']:.4f}", ""))
    rows.append(("forwards per answer", f"{settings['forwards_per_answer']:.2f}", ""))
    title = f"{settings['model']} on {settings['examples']} examples of {settings['task']['name']}"
    out.table(("metric", "value", "95 %"), rows, title=title)
    out.say()
    out.say(f"answers {file}\nsettings {settings_file(file)}")


def warn_of_other_settings(source: policies.Source, sampler: Any) -> None:
    """Say in which settings the sampler differs from the one the run was evaluated with."""
    if source.run is None:
        return
    from dllmzoo.recipe import load
    from dllmzoo.recipe.plain import plain_part
    from dllmzoo.training.evaluate import evaluator, greedy

    own = load(source.run / policies.RECIPE_FILE)
    before = plain_part(policies.with_steps(greedy(evaluator(own)), own.evaluate.steps))
    after = plain_part(sampler)
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            out.warn(
                f"note: sampler.{name} is {after.get(name)}, but the run was evaluated with "
                f"{before.get(name)}; the numbers do not compare"
            )
