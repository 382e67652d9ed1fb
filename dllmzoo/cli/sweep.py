"""`dllmzoo sweep`: recipes over values and seeds, as one resumable folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli import _recipes as recipes
from dllmzoo.cli._app import app
from dllmzoo.errors import RunError, UsageError

if TYPE_CHECKING:
    from dllmzoo.lab.runs import Say
    from dllmzoo.lab.sweep import Sweep

JOBS_HELP = "Runs at a time, each in a process with its share of the cores."
SEEDS_HELP = "Run seeds 0, 1, ... of everything, so many of them."


@app.command("sweep")
def sweep_recipes(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE|KEY=A,B,C",
            autocompletion=complete.recipes,
            help="Files or names of packaged recipes, and changes; values between commas are all "
            "run, in every combination. Brackets and quotes keep their commas: "
            "`task.blanks=[5,8],[6,8]`.",
        ),
    ],
    seeds: Annotated[int | None, typer.Option(help=SEEDS_HELP, show_default=False)] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help=JOBS_HELP)] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the sweep; runs/sweep_RECIPE by default.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every run and say what it costs; stop.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table as JSON; progress to standard error.")
    ] = False,
) -> None:
    """Run recipes with every combination of values; the same command goes on later.

    Each run is a run folder of its own, `runs/NAME` in the folder of the sweep. One that a health
    check stops is a result; one that fails otherwise does not stop the others.
    """
    options = options_from(words, seeds, jobs, output)
    from dllmzoo.lab import sweep

    if dry_run:
        show_forecast(sweep.forecast(options.arms(), options.output), as_json=as_json)
        return
    result = sweep.run(options, narrator(as_json=as_json))
    if as_json:
        out.say_json(result)
    else:
        show_tables(sweep.tables(result))
        out.say(f"\nwrote table.json and table.csv in {options.output}")
    refuse_failed([run["arm"] for run in result["runs"] if run["status"] == "failed"])


def options_from(words: list[str], seeds: int | None, jobs: int, output: Path | None) -> Sweep:
    """What the words of the command line ask for."""
    from dllmzoo.lab.grid import labels, parse_axes
    from dllmzoo.lab.sweep import Sweep

    sources, changes = recipes.split_words(words)
    if not sources:
        raise UsageError("name at least one recipe: dllmzoo sweep RECIPE... [key=a,b,c]...")
    axes = parse_axes(changes)
    if jobs < 1:
        raise UsageError("--jobs must be 1 or more")
    if output is None:
        first, *more = labels(sources)
        output = Path("runs") / (f"sweep_{first}" + (f"_and_{len(more)}_more" if more else ""))
    return Sweep(tuple(sources), axes, seeds, jobs, output)


def narrator(*, as_json: bool) -> Say:
    """Where progress goes: beside the JSON, not into it."""

    def say(text: str) -> None:
        (out.warn if as_json else out.say)(text)
        out.flush()

    return say


def show_tables(tables: list[Any]) -> None:
    """Tables, each after an empty line."""
    for headers, rows, title in tables:
        out.say()
        out.table(headers, rows, title=title)


def show_forecast(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """What each run of a grid would cost."""
    if as_json:
        out.say_json(rows)
        return
    lines = [
        (row["arm"], str(row["rounds"]), f"{row['flops_per_round']:.3g}", f"{row['flops']:.3g}",
         f"{row['minutes']:.3g}")
        for row in rows
    ]  # fmt: skip
    flops, minutes = sum(row["flops"] for row in rows), sum(row["minutes"] for row in rows)
    lines.append(("all", "", "", f"{flops:.3g}", f"{minutes:.3g}"))
    headers = ("run", "rounds", "FLOPs of a round", "FLOPs", "estimated minutes")
    out.table(headers, lines, title=f"{len(rows)} runs")


def refuse_failed(names: list[str]) -> None:
    """End with an error if runs failed.

    Raises:
        RunError: names them.
    """
    if names:
        raise RunError(
            f"{len(names)} runs failed: {', '.join(names)}; the same command tries them again"
        )
