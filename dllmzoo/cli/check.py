"""`dllmzoo check` and `dllmzoo schema`: recipes before anything is run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli import _recipes as recipes
from dllmzoo.cli._app import app
from dllmzoo.cli.listing import PLUGIN_HELP, load_plugins
from dllmzoo.errors import DllmzooError, Problem, RecipeError, UsageError


@app.command("check")
def check_recipes(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE|KEY=VALUE",
            autocompletion=complete.recipes,
            help="Files or names of packaged recipes; `key=value` changes all of them.",
        ),
    ],
    plugin: Annotated[list[str] | None, typer.Option(help=PLUGIN_HELP)] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Check the recipe with its `smoke` block applied.")
    ] = False,
    preflight: Annotated[
        bool,
        typer.Option(
            "--preflight",
            help="Load the weights too, and prove what training takes for granted: mask id, "
            "tokenizer, logit alignment, first ratio, batch invariance, LoRA coverage, memory.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report every problem of every recipe, with its place; nothing is trained."""
    sources, overrides = recipes.split_words(words)
    if not sources:
        raise UsageError("name at least one recipe: dllmzoo check RECIPE... [key=value]...")
    load_plugins(plugin or ())
    found: dict[str, list[Problem]] = {}
    for source in sources:
        found[source], notices = problems_of(source, overrides, smoke=smoke)
        if preflight and not found[source]:
            found[source], verdicts = preflight_problems(source, overrides, smoke=smoke)
            notices += verdicts
        if not as_json:
            _report(source, found[source], notices)
    if as_json:
        out.say_json({name: [asdict(p) for p in problems] for name, problems in found.items()})
    total = sum(map(len, found.values()))
    if total:
        if not as_json:
            wrong = sum(map(bool, found.values()))
            out.warn(f"{_count(total, 'problem')} in {wrong} of {_count(len(found), 'recipe')}")
        raise typer.Exit(2)


def problems_of(
    source: str, overrides: list[str], *, smoke: bool
) -> tuple[list[Problem], list[str]]:
    """Every problem of one recipe, and what it wants the user to know."""
    try:
        recipe = recipes.load_checked(source, overrides, smoke=smoke)
    except RecipeError as error:
        return error.problems, []
    except DllmzooError as error:
        return [Problem(source, "", str(error))], []
    return [], list(recipe.notices)


def preflight_problems(
    source: str, overrides: list[str], *, smoke: bool
) -> tuple[list[Problem], list[str]]:
    """What fails once the weights of a sound recipe are loaded, and what does not."""
    from dllmzoo.training.preflight import preflight
    from dllmzoo.training.setup import make_accelerator, make_learner

    recipe = recipes.load_checked(source, overrides, smoke=smoke)
    where = recipe.where("model")
    try:
        learner = make_learner(recipe, make_accelerator(recipe.train))
    except DllmzooError as error:
        return [Problem(where, "model", str(error))], []
    verdicts = preflight(recipe, learner, full=True)
    failed = [verdict for verdict in verdicts if verdict.outcome == "failed"]
    problems = [Problem(where, "model", f"{v.name}: {v.message}", v.hint) for v in failed]
    return problems, [f"preflight: {v}" for v in verdicts if v not in failed]


def _report(source: str, problems: list[Problem], notices: list[str]) -> None:
    for problem in problems:
        out.say(str(problem))
    for notice in notices:
        out.say(f"{source}: note: {notice}")
    if not problems:
        out.say(f"{source}: ok")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@app.command("schema")
def print_schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file to write instead of printing.")
    ] = None,
) -> None:
    """Print the JSON Schema of recipes, by which an editor completes and checks them."""
    from dllmzoo.recipe.schema import json_schema

    schema = json_schema()
    if output is None:
        out.say_json(schema)
        return
    import json

    try:
        output.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from error
    out.say(f"wrote {output}; name it in the first line of a recipe:")
    out.say(f"  # yaml-language-server: $schema={output}")
