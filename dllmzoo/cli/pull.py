"""`dllmzoo pull`: a model or a data set of the catalogue, whole and verified, in a folder."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dllmzoo import hub
from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app
from dllmzoo.cli._kinds import guess
from dllmzoo.errors import RunError, UnknownNameError, UsageError

HUB_ID = re.compile(r"(?P<data>datasets/)?(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")
REPO = re.compile(r"[\w.-]+/[\w.-]+")


@app.command("pull")
def pull_card(
    name: Annotated[
        str,
        typer.Argument(
            metavar="CARD|HUB_ID",
            autocompletion=complete.pulled,
            help="A card of a model or a data set (`dllmzoo list weights`), or `owner/name`, "
            "`datasets/owner/name`, with `@revision` if you like.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", show_default=False,
            help="Where to: weights/NAME or data/NAME by default, where recipes find it by itself.",
        ),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option("--revision", help="Instead of the card's: a commit, a branch or a tag."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be downloaded, and stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:  # fmt: skip
    """Download a model or a data set to a folder, for machines with or without a network.

    Only what is needed comes: weights in safetensors, configuration, tokenizer; data files. Sizes
    and hashes are verified. What an attempt has fetched is kept: run it again to go on.
    """
    kind, repo, pinned, short, licence = named(name)
    asked = revision or pinned
    folder = output or Path(hub.SHELVES[kind]) / short
    found = hub.listing(kind, repo, asked)
    if not as_json:
        describe(found, folder, asked, licence)
    if not dry_run:
        bring(found, folder, asked)
    if as_json:
        out.say_json({**asdict(found), "card_licence": licence, "folder": str(folder)})
    elif not dry_run:
        out.say(f"verified {len(found.files)} files; {use(found, folder, short)}")


def named(name: str) -> tuple[hub.Kind, str, str | None, str, str | None]:
    """Kind, repository, revision, folder name and licence of what the user names.

    Raises:
        UnknownNameError: there is no such card.
        UsageError: the card stands for nothing that can be downloaded.
    """
    from dllmzoo import catalogue

    if name in catalogue.names("models"):
        card = catalogue.card("models", name)
        if card["hub_id"] is None:
            raise UsageError(f"the card {name} names no repository, so there is nothing to pull")
        return "model", card["hub_id"], card["revision"], name, card["licence"]
    if name in catalogue.names("datasets"):
        card = catalogue.card("datasets", name)
        if not REPO.fullmatch(card["origin"]):
            raise UsageError(f"the data of {name} cannot be pulled; they are: {card['origin']}")
        return "dataset", card["origin"], card["revision"], name, card["licence"]
    if name in catalogue.names("weights"):
        raise UsageError(f"the weights {name} come with the library: model.weights={name}")
    if (found := HUB_ID.fullmatch(name)) is not None:
        short = found["repo"].partition("/")[2]
        return (
            "dataset" if found["data"] else "model",
            found["repo"],
            found["revision"],
            short,
            None,
        )
    known = [*catalogue.names("models"), *catalogue.names("datasets")]
    raise UnknownNameError(
        f"{name!r} is neither a card of a model or a data set nor a hub id (owner/name)."
        f"{guess(name, known, 3)} All are listed by: dllmzoo list weights, dllmzoo list datasets"
    )


def describe(found: hub.Listing, folder: Path, asked: str | None, licence: str | None) -> None:
    """What comes, from where, under which licence, and where it goes."""
    pin = "" if asked == found.commit else f", which {asked or 'the newest revision'} is today"
    both = [
        f"{licence} (card)" if licence else "",
        f"{found.licence} (hub)" if found.licence else "",
    ]
    rows = [
        ("from", f"{found.repo} at {found.commit}{pin}"),
        ("licence", ", ".join(filter(None, both)) or "not known; look at its page before using it"),
        ("files", f"{len(found.files)}, {readable(found.size)}"),
        ("to", str(folder)),
    ]  # fmt: skip
    out.table(("", ""), rows)
    out.flush()


def bring(found: hub.Listing, folder: Path, asked: str | None) -> None:
    """Download, verify, download again what is damaged, and mark the folder as whole.

    Raises:
        UsageError: the folder cannot be used.
        RunError: no room, a broken connection, or files that stay damaged.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output {folder} cannot be made: {error.strerror}") from error
    (folder / hub.MARK).unlink(missing_ok=True)
    there = sum(
        (folder / file.name).stat().st_size
        for file in found.files
        if (folder / file.name).is_file()
    )
    free = shutil.disk_usage(folder).free
    if found.size - there > free:
        raise RunError(
            f"{folder} has room for {readable(free)}, and {readable(found.size - there)} are to "
            f"come; name a larger disk with --output"
        )
    if not sys.stderr.isatty():
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
    hub.download(found, folder)
    if damaged := list(hub.damage(found, folder)):
        for file, what in damaged:
            out.warn(f"{file.name} {what}; it is fetched again")
            (folder / file.name).unlink(missing_ok=True)
        hub.download(found, folder)
        if damaged := list(hub.damage(found, folder)):
            named = "; ".join(f"{file.name} {what}" for file, what in damaged)
            raise RunError(
                f"{folder} is not what the hub says, even at the second attempt: {named}"
            )
    hub.mark(found, folder, asked)


def use(found: hub.Listing, folder: Path, short: str) -> str:
    """How a recipe names what was pulled."""
    if folder == Path(hub.SHELVES[found.kind]) / short:
        return f"recipes started from this folder find it: {found.repo} is read from {folder}"
    if found.kind == "model":
        return f"name it in a recipe: model.weights={folder}"
    return f"name one of its files in a recipe: task.file={folder}/..."


def readable(size: int) -> str:
    """Bytes as people say them."""
    number, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while number >= 1024 and len(units) > 1:
        number, units = number / 1024, units[1:]
    return f"{number:.0f} {units[0]}" if units[0] == "B" else f"{number:.1f} {units[0]}"
