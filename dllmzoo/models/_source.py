"""Where weights are: a folder, a card of the catalogue, or a repository of the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dllmzoo import hub
from dllmzoo.errors import ModelError

CONFIG, ADAPTER = "config.json", "adapter_config.json"


def resolve(spec: str | Path) -> Path | str:
    """The local folder, or the hub id (`owner/name`, `owner/name@revision`), that `spec` means.

    Args:
        spec: a folder with config.json or adapter_config.json; a run folder, whose `final/` is
            meant; a card of registry/weights or registry/models; a hub id.

    Raises:
        ModelError: it is none of these.
    """
    if not str(spec):
        raise ModelError(
            "no weights and no tokenizer are named; write `model.weights`, or `model.tokenizer` "
            "(`characters:01234=`) with `model.config`"
        )
    folder = Path(spec).expanduser()
    if folder.is_dir():
        for each in (folder, folder / "final"):
            if (each / CONFIG).is_file() or (each / ADAPTER).is_file():
                return each
        raise ModelError(
            f"the folder {folder} holds neither {CONFIG} nor {ADAPTER}; give the folder that "
            f"`save_pretrained` or a run's `final` made"
        )
    text = str(spec)
    if isinstance(spec, Path) or text.startswith((".", "/", "~")):
        raise ModelError(f"there is no folder {folder}; give a folder with {CONFIG}")
    if (found := _card(text)) is not None:
        return found
    if text.count("/") == 1:
        return text
    raise ModelError(
        f"{text!r} is neither a folder, nor a card of the catalogue, nor a hub id (owner/name); "
        f"cards: {', '.join(_card_names()) or 'none'}"
    )


def split_revision(hub_id: str) -> tuple[str, str | None]:
    """`owner/name@revision` -> (`owner/name`, `revision` or None)."""
    name, _, revision = hub_id.partition("@")
    return name, revision or None


def read_config(where: Path | str) -> dict[str, Any]:
    """The fields of config.json, before anything else is read.

    Raises:
        ModelError: it cannot be read; says what to download and where to put it.
    """
    return read_json(local(where, "config") / CONFIG)


def local(where: Path | str, part: hub.Part) -> Path:
    """A folder on this machine with the files of one part of a checkpoint.

    A hub id means, in this order: what `dllmzoo pull` put below the current folder, what the hub's
    cache holds, what can be downloaded.

    Args:
        where: as `resolve` returns it.
        part: what is going to be read.

    Raises:
        ModelError: a file is missing and cannot be fetched; says what to download.
    """
    if isinstance(where, Path):
        return where
    try:
        return hub.fetch(*split_revision(where), part)
    except hub.Absent as error:
        raise unreachable(where, error) from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a checkpoint folder.

    Raises:
        ModelError: the file is missing or is not a JSON object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} must hold a JSON object, not a {type(found).__name__}")
    return found


def unreachable(where: Path | str, error: Exception) -> ModelError:
    """What to do about a checkpoint that is neither here nor reachable."""
    first = str(error).strip().partition("\n")[0]
    if isinstance(where, Path):
        return ModelError(f"{where} cannot be loaded: {first}")
    card = _card_of(*split_revision(where))
    shelf = f"{hub.SHELVES['model']}/{card or split_revision(where)[0].partition('/')[2]}"
    return ModelError(
        f"{where} is not on this machine and cannot be fetched ({first}). On a machine with a "
        f"network run `dllmzoo pull {card or where}` and copy the folder {shelf} to the same place "
        f"below the current folder here; or write another place as `model.weights: FOLDER`"
    )


def _card_of(hub_id: str, revision: str | None) -> str | None:
    """The card that stands for a repository at this revision."""
    from dllmzoo import catalogue

    for found in catalogue.cards("models"):
        if (found.hub_id, found.revision) == (hub_id, revision):
            return found.name
    return None


def _card(name: str) -> Path | str | None:
    """Folder or hub id of a card; None where there is no such card."""
    from dllmzoo import catalogue

    if (folder := catalogue.weights_folder(name)) is not None:
        return resolve(folder)
    if name not in catalogue.names("models"):
        return None
    found = catalogue.card("models", name)
    if found["hub_id"] is None:
        raise ModelError(f"the card {name!r} names no hub id; give a folder with the weights")
    return f"{found['hub_id']}@{found['revision']}" if found["revision"] else found["hub_id"]


def _card_names() -> list[str]:
    from dllmzoo import catalogue

    return sorted({*catalogue.names("weights"), *catalogue.names("models")})
