"""`dllmzoo watch`: the page of running jobs, kept up to date while they go on."""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app
from dllmzoo.errors import UsageError


@app.command("watch")
def watch_runs(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", autocompletion=complete.runs, help="Folders of runs."),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the server; 0 = any free one.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = False,
) -> None:
    """Serve the live page of running jobs to this machine alone, until Ctrl-C."""
    from dllmzoo.report.watching import Server, Watched

    watched = Watched(runs)
    try:
        watched.data()  # what is no run is refused before a port is opened
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error
    with Server(watched, port) as server:
        out.say(f"watching {', '.join(map(str, runs))} at {server.address}  (Ctrl-C ends it)")
        out.flush()
        if browser:
            webbrowser.open(server.address)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
