"""`dllmzoo train`: run a recipe, watch it, and say at the end what it gained."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli import _progress as progress
from dllmzoo.cli import _recipes as recipes
from dllmzoo.cli._app import app
from dllmzoo.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from dllmzoo.recipe import Recipe

LINES = 20
"""Lines of a plain log that are due to the count of rounds alone."""


@app.command("train")
def train_recipe(
    ctx: typer.Context,
    recipe: Annotated[str, recipes.ARGUMENT],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help=recipes.OVERRIDES_HELP, show_default=False),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="auto|RUN",
            autocompletion=complete.runs,
            help="Go on with the run in the folder that `output` names (auto), or in RUN.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in the output folder.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the recipe and say what a round costs; stop.")
    ] = False,
    print_config: Annotated[
        bool,
        typer.Option("--print-config", help="Print the recipe with all defaults written; stop."),
    ] = False,
    smoke: Annotated[
        bool,
        typer.Option("--smoke", help="Apply the recipe's `smoke` block: seconds, no learning."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress: only the table at the end.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as JSON; progress goes to standard error."),
    ] = False,
) -> None:
    """Train a model as a recipe says; writes a run folder.

    Ctrl-C finishes the round and saves; a second one stops at once. `--resume auto` goes on.
    """
    if resume is not None and overwrite:
        raise UsageError("--resume and --overwrite exclude each other: go on, or start afresh")
    changes = list(overrides or ())
    if print_config or dry_run:
        loaded = recipes.load_checked(recipe, changes, smoke=smoke)
        for notice in loaded.notices:
            out.warn(f"note: {notice}")
        (show_config if print_config else show_plan)(loaded, as_json=as_json)
        return
    with library_messages():
        run_recipe(
            recipe, changes, resume=resume, overwrite=overwrite, smoke=smoke, quiet=quiet,
            as_json=as_json, command=shlex.join(["dllmzoo", *(ctx.find_root().obj or ())]),
        )  # fmt: skip


def run_recipe(
    source: str, changes: list[str], *, resume: str | None, overwrite: bool, smoke: bool,
    quiet: bool, as_json: bool, command: str,
) -> None:  # fmt: skip
    """Train, show progress, print the final table; only the main process speaks.

    Raises:
        Interrupted: at a second interrupt; names the last checkpoint.
    """
    recipe = recipes.load_checked(source, changes, smoke=smoke)
    from dllmzoo.training.folder import RunFolder
    from dllmzoo.training.run import train

    started = time.monotonic()
    rows = train(recipe, resume=resume, overwrite=overwrite, command=command)
    folder = RunFolder(Path(resume) if resume not in (None, "auto") else Path(recipe.output))
    limit = recipe.train.max_minutes
    pace = progress.Pace(recipe.train.rounds, None if limit is None else 60 * limit)
    watcher = watcher_for(recipe, quiet=quiet, as_json=as_json)
    try:
        with out.to_stderr() if as_json else nullcontext():  # a tracker may print, too
            for _ in progress.watch(rows, watcher, pace):
                pass
    except KeyboardInterrupt:
        last = folder.last_checkpoint()
        kept = "nothing was saved yet" if last is None else f"what is saved is {last}"
        raise Interrupted(f"stopped at once; {kept}") from None
    if out.is_main_process():
        seconds = time.monotonic() - started
        if smoke:
            changes = [*changes, "--smoke"]
        show_result(recipe, folder.path, seconds, source=source, changes=changes, as_json=as_json)


def watcher_for(recipe: Recipe, *, quiet: bool, as_json: bool) -> progress.Watcher:
    """The display that suits the reader."""
    rounds, primary = recipe.train.rounds, recipe.task.primary
    if quiet or not out.is_main_process():
        return progress.Silent()
    if out.is_terminal() and not as_json:
        return progress.Live(rounds, primary)
    return progress.Plain(max(rounds // LINES, 1), primary, out.warn if as_json else out.say)


def show_config(recipe: Recipe, *, as_json: bool) -> None:
    """The recipe with every default written out."""
    from dllmzoo.recipe import dump, resolved

    if as_json:
        out.say_json(resolved(recipe))
    else:
        out.say(dump(resolved(recipe)).rstrip("\n"))


def show_plan(recipe: Recipe, *, as_json: bool) -> None:
    """What a round costs."""
    from dllmzoo.training.plan import plan

    forecast = plan(recipe)
    if as_json:
        out.say_json(asdict(forecast))
    else:
        out.table(("", ""), forecast.rows(), title=recipe.title or recipe.name)


def show_result(
    recipe: Recipe, folder: Path, seconds: float, *, source: str, changes: list[str], as_json: bool
) -> None:
    """The final table, the time, the folder, and what to run next."""
    from dllmzoo.training.summary import summary

    rows = summary(folder)
    if as_json:
        found = [asdict(row) for row in rows]
        out.say_json_line({"folder": folder, "seconds": seconds, "rows": found})
        return
    word = recipe.task.primary.replace("_", " ")
    many = len({row.steps for row in rows}) > 1
    lines = [
        (row.label, *([row.steps] if many else []), percent(row.rate), between(row.low, row.high),
         gain(row.gain, row.gain_low, row.gain_high))
        for row in rows
    ]  # fmt: skip
    headers = ("", *(["steps"] if many else []), word, "95 %", "against the base, paired 95 %")
    number = max((row.examples for row in rows), default=0)
    out.say()
    out.table(headers, lines, title=f"{word} on the same {number} held-out examples, greedy")
    out.say()
    out.say(f"wall time {progress.clock(seconds)}, run folder {folder}")
    out.say("next:")
    for line in next_commands(recipe, folder, source, changes):
        out.say(f"  {line}")


def next_commands(recipe: Recipe, folder: Path, source: str, changes: list[str]) -> list[str]:
    """Commands that make something of a finished run."""
    run = shlex.quote(str(folder))
    longer = [word for word in changes if not word.startswith("train.rounds=")]
    again = shlex.join(["dllmzoo", "train", source, *longer])
    merge = " --merge" if recipe.model.lora is not None else ""
    return [
        f"dllmzoo eval {run}",
        f"dllmzoo generate {run} --trace",
        f"dllmzoo export {run} {shlex.quote(folder.name + '-model')}{merge}",
        f"{again} --resume auto train.rounds={2 * recipe.train.rounds}",
    ]


def percent(rate: float) -> str:
    """A rate as `37.1 %`."""
    return f"{100 * rate:.1f} %"


def between(low: float, high: float) -> str:
    """An interval as `33.0 to 41.4`."""
    return f"{100 * low:.1f} to {100 * high:.1f}"


def gain(middle: float | None, low: float | None, high: float | None) -> str:
    """A difference in points with its interval, or nothing."""
    if middle is None:
        return ""
    if low is None or high is None:
        why = "no example changed" if middle == 0 else "every example changed alike"
        return f"{100 * middle:+.1f} points ({why})"
    return f"{100 * middle:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"


class _Say(logging.Handler):
    """Shows what the library logs, on the main process, without prefix."""

    def emit(self, record: logging.LogRecord) -> None:
        if out.is_main_process():
            out.warn(record.getMessage())


@contextmanager
def library_messages() -> Iterator[Any]:
    """Show the notices that dllmzoo logs while the block runs."""
    logger, handler = logging.getLogger("dllmzoo"), _Say(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
