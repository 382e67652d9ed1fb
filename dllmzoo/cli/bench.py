"""`dllmzoo bench`: rollouts, scoring and rounds beside the plain way to do them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dllmzoo.bench import machine, runner, table
from dllmzoo.bench.cases import CASES, chosen
from dllmzoo.bench.sizes import DTYPES, SIZES, size_of
from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app
from dllmzoo.errors import UsageError


@app.command("bench")
def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CASES", help="Which; none = all but `rollout_stored`.", show_default=False
        ),
    ] = None,
    size: Annotated[str, typer.Option(help="`tiny`, `60m`, or `8b` on a GPU.")] = "tiny",
    device: Annotated[str, typer.Option(help="`cpu` or `cuda`.")] = "cpu",
    dtype: Annotated[
        str | None,
        typer.Option(help="`float32` or `bfloat16`; by default float32, of 8b bfloat16."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Processes of each way.")] = 5,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of torch; by default its own choice.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all figures there as JSON, after each case."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print tables in Markdown.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(help="Put the tables into this page, between its markers.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Measure nothing: make the tables of a file of --output."),
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="List cases and sizes.")] = False,
) -> None:
    """Measure rollouts, scoring, rounds and their growth, each way in processes of its own."""
    if names:
        show_names(as_json)
        return
    record = read(source) if source is not None else None
    if record is None:
        asked = checked(size, device, dtype, repeats, threads)
        wanted = chosen(cases or ())
        if warning := machine.idle_warning(machine.load(), machine.cores()):
            out.warn(f"warning: {warning}")
        record = runner.measure(
            wanted, asked, told=out.warn, each=lambda found: save(found, output)
        )
    elif cases:
        raise UsageError("--from makes the tables of all cases in the file; leave CASES out")
    if write is not None:
        table.write(record, write)
    if as_json:
        out.say_json(record)
    elif as_markdown:
        out.say(table.markdown(record))
    else:
        show(record)


def checked(
    size: str, device: str, dtype: str | None, repeats: int, threads: int | None
) -> runner.Settings:
    """The settings of a run.

    Raises:
        UsageError: a name is not known, or the size does not run on the device.
    """
    shape = size_of(size, device)
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype}: there are {', '.join(DTYPES)}")
    return runner.Settings(size, device, dtype or shape.dtype, repeats, threads)


def show_names(as_json: bool) -> None:
    """Cases with what they measure, then sizes."""
    if as_json:
        cases = [{"name": case.name, "summary": case.summary, "ways": case.ways} for case in CASES]
        sizes = [{"name": size.name, "title": size.title} for size in SIZES.values()]
        out.say_json({"cases": cases, "sizes": sizes})
        return
    out.table(("case", "measures"), [(case.name, case.summary) for case in CASES])
    out.say()
    out.table(("size", "is"), [(each.name, each.title) for each in SIZES.values()])


def show(record: dict[str, Any]) -> None:
    """The tables, for people."""
    out.say(table.title(record))
    out.say()
    if lines := table.rows(record):
        out.table(table.HEADS, lines)
        out.say()
    if lines := table.growth_rows(record):
        out.table(table.GROWTH_HEADS, lines)
        out.say()
    for note in table.notes(record):
        out.say(note)


def save(record: dict[str, Any], path: Path | None) -> None:
    """All figures so far."""
    if path is not None:
        path.write_text(f"{json.dumps(record, indent=2)}\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """A record that was saved.

    Raises:
        UsageError: there is none.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--from {path}: no figures can be read there: {error}") from error
    if not isinstance(record, dict) or record.get("format") != 1:
        raise UsageError(f"--from {path}: not a file that `dllmzoo bench --output` wrote")
    return record
