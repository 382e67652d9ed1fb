"""`dllmzoo export`: a run's weights as a Hugging Face folder that loads anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app
from dllmzoo.cli._policies import source_of


@app.command("export")
def export_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="RUN|MODEL",
            autocompletion=complete.policies,
            help="A run folder, a model folder, an adapter, a card or a hub id.",
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    merge: Annotated[
        bool, typer.Option("--merge", help="Fold LoRA adapters into the base weights.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write weights, config and tokenizer in the public format of the model family."""
    source = source_of(model)
    from dllmzoo.training.export import export

    export(source.weights, folder, merge=merge)
    written = {file: file.stat().st_size for file in sorted(folder.iterdir())}
    if as_json:
        files = [{"file": file, "bytes": size} for file, size in written.items()]
        out.say_json({"folder": folder, "files": files})
        return
    for file, size in written.items():
        out.say(f"wrote {file} ({size / 2**20:.1f} MiB)")
    out.say(f"load it: dllmzoo.load_model({str(folder)!r})")
