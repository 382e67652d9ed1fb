"""Rows of a local file or of a data set of the hub, through the `datasets` library."""

from __future__ import annotations

import glob
import gzip
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dllmzoo import hub
from dllmzoo.errors import TaskError

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class Table:
    """Rows, the columns they have, and where they are from (for messages).

    Args:
        rows: column -> value of each.
        columns: their names.
        source: file or data set.
        lines: of the file, on which the rows stand; None where they have no lines.
    """

    rows: Sequence[Mapping[str, Any]]
    columns: tuple[str, ...]
    source: str
    lines: tuple[int, ...] | None = None

    def place(self, row: int) -> str:
        """Where row 0, 1, ... stands, for messages: `FILE:LINE`, or the number of the row."""
        return (
            f"{self.source}, row {row + 1}"
            if self.lines is None
            else (f"{self.source}:{self.lines[row]}")
        )

    def require(self, *columns: str, why: str = "") -> None:
        """Check that every one of the columns is there.

        Raises:
            TaskError: names all missing columns, the data, and the columns there are.
        """
        missing = [repr(name) for name in columns if name not in self.columns]
        if missing:
            raise TaskError(
                f"{self.source} has no column {' and no column '.join(missing)}{why}; "
                f"there are: {', '.join(self.columns)}"
            )


def find_file(path: str) -> Path:
    """The file, relative to the current folder.

    Raises:
        TaskError: there is no such file, or its ending names no known format.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise TaskError(f"the file {file} is not there; paths are relative to the current folder")
    if format_of(file) is None:
        raise TaskError(
            f"the format of {file} is not known by its ending; there are: {', '.join(FORMATS)}"
        )
    return file


def format_of(file: Path) -> str | None:
    """Which reader of `datasets` the ending asks for; a final `.gz` is passed over."""
    return FORMATS.get(_ending(file))


def _ending(file: Path) -> str:
    return Path(file.name.removesuffix(".gz")).suffix.lower()


def read_file(path: str, *, text_columns: Sequence[str] = (), keep_blank: bool = False) -> Table:
    """All rows of a CSV, TSV, JSON, JSONL or Parquet file.

    Args:
        path: relative to the current folder.
        text_columns: columns of a CSV kept as the text they are: no numbers, leading zeros stay.
        keep_blank: keep blank lines of a CSV as rows, so that row i stands on line i + 2.

    Raises:
        TaskError: the file is missing, empty or malformed.
    """
    import datasets

    file = find_file(path)
    options: dict[str, Any] = {}
    if _ending(file) in (".jsonl", ".ndjson"):
        numbered = _json_lines(file)
        table = _table([row for _, row in numbered], str(file))
        return replace(table, lines=tuple(number for number, _ in numbered))
    if format_of(file) == "csv":
        options = {
            "converters": dict.fromkeys(text_columns, str),
            "keep_default_na": False,  # "NA" and "None" are words, only an empty field is null
            "na_values": [""],
            "skipinitialspace": True,
            "skip_blank_lines": not keep_blank,
            "sep": "\t" if ".tsv" in file.suffixes else ",",
        }
    try:
        with tempfile.TemporaryDirectory() as nothing_stays:
            stream = datasets.load_dataset(
                format_of(file) or "",
                data_files=glob.escape(str(file)),
                split="train",
                streaming=True,
                cache_dir=nothing_stays,
                **options,
            )
            rows = [dict(row) for row in stream]
    except Exception as error:
        raise TaskError(f"{file} cannot be read: {_reason(file, error)}") from error
    return _table(rows, str(file))


def _json_lines(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """Line and object, one a line, every value as it is written: nothing is guessed."""
    opened = gzip.open if file.suffix == ".gz" else open
    rows = []
    try:
        with opened(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TaskError(
                        f"{file}:{number} holds no JSON object, but {line.strip()[:40]}"
                    )
                rows.append((number, row))
    except TaskError:
        raise
    except (OSError, ValueError) as error:
        raise TaskError(f"{file} cannot be read: {_reason(file, error)}") from error
    return rows


def _table(rows: list[dict[str, Any]], source: str) -> Table:
    if not rows:
        raise TaskError(f"{source} holds no rows")
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    if any(name.startswith("__index_level_") for name in columns):
        raise TaskError(f"{source} has rows with more fields than its first line names")
    return Table([{name: row.get(name) for name in columns} for row in rows], columns, source)


def _reason(file: Path, error: Exception) -> str:
    """What is wrong, with the line of a JSONL file that is no JSON."""
    if file.suffix in (".jsonl", ".ndjson"):
        for number, line in enumerate(file.read_bytes().splitlines(), start=1):
            try:
                json.loads(line or b"null")
            except ValueError as wrong:
                return f"line {number} is no JSON: {wrong}"
    return f"{type(error).__name__}: {error}"


def read_hub(name: str, subset: str | None, split: str, revision: str | None) -> Table:
    """A split of a data set: from the folder that `dllmzoo pull` made, the cache, or the hub.

    Raises:
        TaskError: it cannot be had; says what to download.
    """
    import datasets

    source = f"the data set {name} ({split})"
    folder = hub.pulled("dataset", name, revision)
    try:
        if folder is not None:
            rows = datasets.load_dataset(str(folder), subset, split=split)
        else:
            hub.online()  # one that does not answer is then asked no more
            rows = datasets.load_dataset(name, subset, split=split, revision=revision)
    except Exception as error:
        where = f"{source} in {folder}" if folder else source
        raise TaskError(
            f"{where} cannot be had: {type(error).__name__}: {error}\n"
            f"    without a connection, fetch it elsewhere with `dllmzoo pull datasets/{name}"
            f"{f'@{revision}' if revision else ''}` and copy its folder to the same place below "
            f"the current folder here; or with `hf download {name} --repo-type dataset "
            f"--local-dir DIR`, and name the file in DIR as `file`"
        ) from error
    if not len(rows):
        raise TaskError(f"{source} holds no rows")
    return Table(rows, tuple(rows.column_names or ()), source)  # type: ignore[arg-type]


def refuse_two_sources(task: Any) -> None:
    """Raise where a task's fields `file`, `hub` and what belongs to them exclude each other.

    Raises:
        ValueError: names the two.
    """
    if task.file is not None and task.hub is not None:
        raise ValueError("both file and hub are given; name one source of training data")
    if task.test_file is not None and task.test_split is not None:
        raise ValueError("both test_file and test_split are given; name one")
    if task.hub is None:
        for name in ("subset", "revision", "test_split"):
            if getattr(task, name) is not None:
                raise ValueError(f"{name} belongs to hub, which is not given")
