"""`dllmzoo report`: runs and results of the labs in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app
from dllmzoo.errors import UsageError


@app.command("report")
def report_runs(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|RESULT",
            autocompletion=complete.reported,
            help="Run folders, folders or JSON files of the labs, result cards.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="The HTML file. Default: report.html in the first folder.",
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(help="Of the page. Default: names of the runs.", show_default=False),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help="Also draw every chart as SVG and PNG into this folder.", show_default=False
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Show runs side by side in one HTML file that needs no network."""
    from dllmzoo.report.collect import collect
    from dllmzoo.report.page import page
    from dllmzoo.training.files import write_bytes

    runs, results = sort_sources(sources)
    file = output or (runs or [each.parent for each in results])[0] / "report.html"
    if not file.parent.is_dir():
        raise UsageError(f"there is no folder {file.parent} to write {file.name} into; make it")
    try:
        data = collect(runs) | {"labs": sections(results)}
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error
    named = [run["name"] for run in data["runs"]] or [lab["title"] for lab in data["labs"]]
    text = page(data, title=title or f"dllmzoo: {', '.join(named)}").encode()
    try:
        write_bytes(file, text)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}; use --output") from error
    drawn = [] if figures is None else draw(data, figures)
    if as_json:
        pictures = [
            figures / f"{name}.{end}" for name in drawn for end in ("svg", "png") if figures
        ]
        out.say_json({"file": file, "bytes": len(text), "figures": pictures})
        return
    out.say(f"wrote {file} ({len(text) / 1e6:.1f} MB)")
    if drawn:
        out.say(f"drew {len(drawn)} figures in {figures}, each as SVG and PNG")


def sort_sources(words: list[str]) -> tuple[list[Path], list[Path]]:
    """Run folders, and files of results.

    Raises:
        UsageError: a word is neither.
    """
    from dllmzoo.catalogue import cards
    from dllmzoo.catalogue import path as card_path
    from dllmzoo.cli._lab_results import files
    from dllmzoo.report.folders import is_run

    runs, results = [], []
    for word in words:
        path = Path(word)
        if path.is_dir() and is_run(path):
            runs.append(path)
        elif found := files(path):
            results += found
        elif word in {card.name for card in cards("results")}:
            results.append(card_path("results", word))
        else:
            raise UsageError(
                f"{word} is no run folder, no result of a lab and no result card; cards: dllmzoo "
                f"list result"
            )
    return runs, results


def sections(results: list[Path]) -> list[dict[str, Any]]:
    """Each result file as a part of the page."""
    from dllmzoo.cli._lab_results import section

    return [section(file) for file in results]


def draw(data: dict[str, Any], folder: Path) -> list[str]:
    """Every chart of the runs, as NAME.svg and NAME.png; returns the names."""
    from dllmzoo.lab.figure import COLOURS, figure
    from dllmzoo.report.figures import panels

    drawn = []
    for panel in panels(data):
        with figure(folder / panel.name, *panel.size) as page:
            panel.draw(page.subplots(), COLOURS)
        drawn.append(panel.name)
    return drawn
