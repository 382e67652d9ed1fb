"""Models and data sets of the hub: what is on this machine, what is missing, how it is fetched."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from dllmzoo.errors import RunError, UsageError

log = logging.getLogger("dllmzoo")

Kind = Literal["model", "dataset"]

SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
PATIENCE = 5.0
"""Seconds that the hub has to answer at all, once a process."""
SHELVES: dict[Kind, str] = {"model": "weights", "dataset": "data"}
"""Folder, below the current one, that pulled repositories are put into and looked for in."""
MARK = ".pulled.json"
"""Written into a pulled folder last: what is there, whole and verified."""
COMMIT = re.compile(r"[0-9a-f]{40}")

Part = Literal["config", "tokenizer", "weights"]
PARTS: dict[Part, tuple[str, ...]] = {
    "config": ("config.json",),
    "tokenizer": (
        "config.json", "tokenizer*", "vocab*", "merges.txt", "*_tokens*.json", "*.jinja", "*.model",
    ),
    "weights": ("config.json", "generation_config.json", "*.safetensors", "*.index.json"),
}  # fmt: skip
"""Files of a part of a checkpoint, as patterns of names in its top folder."""
NEEDED: dict[Kind, tuple[str, ...]] = {
    "model": (*PARTS["tokenizer"], *PARTS["weights"], "README.md", "LICENSE*"),
    "dataset": (
        "*.parquet", "*.arrow", "*.json", "*.jsonl", "*.ndjson", "*.csv", "*.tsv", "*.gz", "*.zst",
        "README.md", "LICENSE*",
    ),
}  # fmt: skip
"""What is fetched: no other weight formats, and no code."""

_answered: set[str] = set()  # addresses that have answered
_silence: str | None = None  # why the hub is not asked, where nobody has forbidden it


class Absent(Exception):
    """A file is neither on this machine nor to be had; the caller says what to do about it."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a repository.

    Args:
        name: path inside the repository.
        size: bytes.
        sha256: of a large file; None for a small one.
        blob: git's name of a small file's content, the SHA-1 of `blob SIZE` and the content.
    """

    name: str
    size: int
    sha256: str | None = None
    blob: str | None = None


@dataclass(frozen=True)
class Listing:
    """What a repository holds at one commit, as far as it is needed here.

    Args:
        kind: model or data set.
        repo: `owner/name`.
        commit: 40 hexadecimal digits.
        licence: as the repository's own card states it; None = it does not.
        files: those that are needed.
    """

    kind: Kind
    repo: str
    commit: str
    licence: str | None
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def go_offline() -> None:
    """Let nothing in this process ask the hub, libraries that are already imported included."""
    os.environ.update(dict.fromkeys(SWITCHES, "1"))
    for module in ("huggingface_hub.constants", "datasets.config"):
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
            if hasattr(sys.modules.get(module), name):
                setattr(sys.modules[module], name, True)


def online() -> bool:
    """Whether the hub may be asked: nobody forbade it, and it answers.

    A hub that does not answer at once counts as switched off for the rest of the process, so that
    no library tries again and again.
    """
    global _silence
    from huggingface_hub import constants, get_session

    if constants.is_offline_mode():
        return False
    if constants.ENDPOINT in _answered:
        return True
    try:
        get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception as error:
        _silence = f"{constants.ENDPOINT} does not answer ({type(error).__name__})"
        go_offline()
        log.warning(f"{_silence}; only what is on this machine is read")
        return False
    _answered.add(constants.ENDPOINT)
    return True


_answered: set[str] = set()


def _asked(endpoint: str) -> bool:
    return endpoint in _answered


def why_offline() -> str:
    """Why the hub is not asked, as a clause."""
    return _silence or "the network is switched off by --offline or HF_HUB_OFFLINE"


def pulled(kind: Kind, repo: str, revision: str | None) -> Path | None:
    """The folder below the current one that `dllmzoo pull` filled with a repository, if any.

    Args:
        kind: model or data set.
        repo: `owner/name`.
        revision: a commit or a name; None = whichever was pulled.
    """
    for mark in sorted(Path(SHELVES[kind]).glob(f"*/{MARK}")):
        try:
            found = json.loads(mark.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if (found["kind"], found["repo"]) != (kind, repo):
            continue
        if revision is None or revision in (found["commit"], found["asked"]):
            return mark.parent
    return None


def fetch(repo: str, revision: str | None, part: Part) -> Path:
    """A folder with one part of a checkpoint: pulled, cached, or downloaded into the cache.

    Args:
        repo: `owner/name`.
        revision: None = the newest, or the newest of this machine where the hub is not asked.
        part: what is going to be read.

    Raises:
        Absent: the message names the first missing file and the reason.
    """
    from huggingface_hub import constants, snapshot_download, try_to_load_from_cache

    if (folder := pulled("model", repo, revision)) is not None:
        return folder
    if (revision is not None and COMMIT.fullmatch(revision)) or not online():
        config = try_to_load_from_cache(repo, "config.json", revision=revision)
        cached = Path(config).parent if isinstance(config, str) else None
        missing = ["config.json"] if cached is None else missing_files(cached, part)
        if cached is not None and not missing:
            return cached
        if not online():
            raise Absent(f"{missing[0]} is missing; {why_offline()}")
    try:
        folder = Path(
            snapshot_download(
                repo,
                revision=revision,
                allow_patterns=list(PARTS[part]),
                ignore_patterns=["*/*"],
                endpoint=constants.ENDPOINT,
            )
        )
    except Exception as error:
        raise Absent(explained(repo, error)) from error
    if missing := missing_files(folder, part):
        raise Absent(f"the repository has no {missing[0]}")
    return folder


def missing_files(folder: Path, part: Part) -> list[str]:
    """Files without which a part of a checkpoint cannot be read, and which are not there."""
    wanted = ["config.json"]
    index = folder / "model.safetensors.index.json"
    if part == "tokenizer":
        wanted.append("tokenizer_config.json")
    elif part == "weights" and index.is_file():
        parts = json.loads(index.read_text(encoding="utf-8")).get("weight_map", {})
        wanted += sorted(set(parts.values()))
    elif part == "weights":
        wanted.append("model.safetensors")
    return [name for name in wanted if not (folder / name).is_file()]


def listing(kind: Kind, repo: str, revision: str | None) -> Listing:
    """What the hub says of a repository; asks the network.

    Raises:
        UsageError: the network is switched off, or there is no such repository or revision.
        RunError: the hub cannot be reached.
    """
    from huggingface_hub import HfApi, constants, errors

    if constants.is_offline_mode():
        raise UsageError(f"pull asks the hub, and {why_offline()}; run it where there is a network")
    if not online():
        raise RunError(f"{repo} cannot be pulled: {why_offline()}")
    try:
        info: Any = HfApi(endpoint=constants.ENDPOINT).repo_info(
            repo, revision=revision, repo_type=kind, files_metadata=True
        )
    except Exception as error:
        refused = isinstance(error, errors.HfHubHTTPError)
        kind_of_error = UsageError if refused else RunError
        raise kind_of_error(f"{repo} cannot be pulled: {explained(repo, error)}") from error
    files = tuple(
        RemoteFile(
            each.rfilename, int(each.size or 0),
            None if each.lfs is None else each.lfs.sha256,
            each.blob_id if each.lfs is None else None,
        )
        for each in info.siblings or ()
        if is_needed(kind, each.rfilename)
    )  # fmt: skip
    stated = (getattr(info, "card_data", None) or {}).get("license")
    if kind == "model" and not any(file.name.endswith(".safetensors") for file in files):
        raise UsageError(f"{repo} has no weights in safetensors; no other format is read here")
    return Listing(kind, repo, info.sha or "", None if stated is None else str(stated), files)


def download(found: Listing, folder: Path) -> None:
    """Fetch the files of a listing into a folder; goes on where an earlier attempt stopped.

    Raises:
        RunError: the connection broke, or the folder cannot be written.
    """
    from huggingface_hub import constants, snapshot_download

    try:
        snapshot_download(
            found.repo, repo_type=found.kind, revision=found.commit, local_dir=folder,
            allow_patterns=[_literal(file.name) for file in found.files],
            endpoint=constants.ENDPOINT,
        )  # fmt: skip
    except Exception as error:
        raise RunError(
            f"the download of {found.repo} into {folder} stopped: {explained(found.repo, error)}. "
            f"Run the command again: it goes on where it stopped"
        ) from error


def damage(found: Listing, folder: Path) -> Iterator[tuple[RemoteFile, str]]:
    """Files that are not as the hub says, each with what is wrong; reads every byte."""
    for file in found.files:
        path = folder / file.name
        if not path.is_file():
            yield file, "is missing"
        elif (size := path.stat().st_size) != file.size:
            yield file, f"has {size} bytes, the hub says {file.size}"
        elif not _has_hash(path, file):
            yield file, "has another hash than the hub says"


def mark(found: Listing, folder: Path, asked: str | None) -> None:
    """Note in the folder what it holds: it is whole and verified."""
    content = asdict(found) | {"asked": asked}
    (folder / MARK).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def is_needed(kind: Kind, name: str) -> bool:
    """Whether a file of a repository is fetched."""
    if kind == "model" and "/" in name:
        return False
    return not name.startswith(".") and _matches(name.rpartition("/")[2], NEEDED[kind])


def explained(repo: str, error: Exception) -> str:
    """What the hub's refusal means, in a clause."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.GatedRepoError):
        return f"it asks for consent: agree at {constants.ENDPOINT}/{repo}, then `hf auth login`"
    if isinstance(error, errors.RevisionNotFoundError):
        return "it has no such revision"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "there is no such repository, or it is private (`hf auth login`)"
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"


def _has_hash(path: Path, file: RemoteFile) -> bool:
    if file.sha256 is None and file.blob is None:
        return True
    digest: Any = hashlib.sha256()
    if file.sha256 is None:
        digest = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as content:
        while piece := content.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest() == (file.sha256 or file.blob)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _literal(name: str) -> str:
    """A file name as a pattern that matches nothing else."""
    return re.sub(r"([*?[])", r"[\1]", name)
