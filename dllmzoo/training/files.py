"""Writing that survives a kill: a temporary file, fsync, then an atomic rename."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file as a whole or not at all."""
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder that appears complete or not at all; write into the yielded one.

    An earlier folder of that name is replaced only when the new one is complete.
    """
    temporary = unfinished(path)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for file in sorted(temporary.rglob("*")):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
    if path.exists():
        old = path.with_name(f".{path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        os.replace(path, old)
        os.replace(temporary, path)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(temporary, path)
    _sync_folder(path.parent)


def unfinished(path: Path) -> Path:
    """What a folder is called until it is complete."""
    return path.with_name(f".{path.name}.tmp")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
