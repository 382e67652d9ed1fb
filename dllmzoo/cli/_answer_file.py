"""The file of answers that grows while `eval` runs, and its settings beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dllmzoo.errors import UsageError
from dllmzoo.training.files import write_bytes, write_json

FORMAT = 2
SAME = ("format", "examples", "samples", "seed", "dtype", "data", "policy", "task", "sampler")
"""Settings that one file of answers has one value of."""

_ABSENT = object()


@dataclass
class AnswerFile:
    """`NAME.jsonl`, one line an answer, and `NAME.settings.json`.

    At any time the file holds the first lines of what it will be in the end. The settings are
    there from the start; while the evaluation runs they also hold `progress`: how many answers
    and forwards there were after each call of the sampler. A file that was cut goes back to the
    last call that it holds as a whole.

    Args:
        path: of the answers.
        settings: how they are made.
        lines: what the file holds.
        progress: (answers, forwards) so far after each call.
    """

    path: Path
    settings: dict[str, Any]
    lines: list[dict[str, Any]] = field(default_factory=list)
    progress: list[tuple[int, int]] = field(default_factory=list)

    @property
    def forwards(self) -> int:
        """Model rows that ran for all lines."""
        return self.progress[-1][1] if self.progress else 0

    def append(self, lines: Sequence[dict[str, Any]], forwards: int) -> None:
        """Add the lines of one call to the file's end, on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(encoded(lines))
            file.flush()
            os.fsync(file.fileno())
        self.lines += lines
        self.progress.append((len(self.lines), self.forwards + forwards))
        self._write_settings({"progress": self.progress})

    def finish(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Settings and results, as they are on the disk from now on."""
        self.settings |= results
        self._write_settings({})
        return self.settings

    def _write_settings(self, more: Mapping[str, Any]) -> None:
        write_json(settings_file(self.path), {**self.settings, **more})


def begun(path: Path, settings: dict[str, Any], *, resume: bool) -> AnswerFile:
    """A fresh file, or the one that is there as far as it goes.

    Raises:
        UsageError: it was made with other settings, or the folder cannot be written to.
    """
    file = AnswerFile(path, settings)
    try:
        if resume and path.exists():
            _go_on(file)
        else:
            settings_file(path).unlink(missing_ok=True)
            write_bytes(path, b"")
        file._write_settings({"progress": file.progress})
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return file


def _go_on(file: AnswerFile) -> None:
    """Read what is there, and cut it back to the last call that it holds as a whole."""
    before = known_settings(file.path)
    refuse_other(file.path, file.settings)
    lines = whole_lines(file.path)
    progress = _progress(before, settings_file(file.path))
    file.progress = [(number, ran) for number, ran in progress if number <= len(lines)]
    file.lines = lines[: file.progress[-1][0] if file.progress else 0]
    write_bytes(file.path, encoded(file.lines))


def _progress(before: Mapping[str, Any], where: Path) -> list[tuple[int, int]]:
    """(answers, forwards) after each call; of a finished file those in the end.

    Raises:
        UsageError: the settings do not say it.
    """
    progress = before.get("progress", [(before.get("answers"), before.get("forwards"))])
    try:
        found: list[Any] = [(number, ran) for number, ran in progress]
    except (TypeError, ValueError):
        found = [(None, None)]
    if not all(isinstance(each, int) for pair in found for each in pair):
        raise UsageError(
            f"{where} does not say how far the evaluation got (`progress`, a list of two numbers "
            f"for each batch); start over with --overwrite"
        )
    return found


def refuse_other(path: Path, settings: Mapping[str, Any]) -> None:
    """Refuse to go on with other settings than the file was begun with.

    Args:
        path: of the answers.
        settings: those that are known by now.

    Raises:
        UsageError: names every difference.
    """
    before = known_settings(path)
    found = [
        line
        for name in SAME
        if name in settings
        for line in differences(before.get(name, _ABSENT), settings[name], name)
    ]
    if found:
        raise UsageError(
            f"{path} was begun with other settings, so it cannot be gone on with:\n  "
            + "\n  ".join(found)
            + "\nuse the same ones, another --output, or --overwrite to start over"
        )


def differences(before: Any, now: Any, name: str) -> list[str]:
    """Where two settings differ, one line each.

    Example:
        >>> differences({"steps": 4, "name": "a"}, {"steps": 8, "name": "a"}, "sampler")
        ['sampler.steps is 8, and was 4']
    """
    before = json.loads(json.dumps(before)) if before is not _ABSENT else before
    now = json.loads(json.dumps(now)) if now is not _ABSENT else now
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            line
            for key in sorted({*before, *now})
            for line in differences(
                before.get(key, _ABSENT), now.get(key, _ABSENT), f"{name}.{key}"
            )
        ]
    if before == now:
        return []
    if name in ("data", "policy"):
        what = "the held-out examples are" if name == "data" else "the weights are"
        return [f"{what} not the same as before"]
    return [f"{name} is {_shown(now)}, and was {_shown(before)}"]


def _shown(value: Any) -> str:
    return "not there" if value is _ABSENT else str(value)


def known_settings(path: Path) -> dict[str, Any]:
    """The settings beside an answer file.

    Raises:
        UsageError: there are none that can be read.
    """
    try:
        found = json.loads(settings_file(path).read_text())
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        return found
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{settings_file(path)}, which says how {path} was made, cannot be read; start over "
            f"with --overwrite"
        ) from error


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file up to the first that was torn or is no JSON."""
    lines = []
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def encoded(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """The bytes of lines."""
    text = (json.dumps(line, ensure_ascii=False, default=str) + "\n" for line in lines)
    return "".join(text).encode()


def settings_file(path: Path) -> Path:
    """Where the settings of an answer file are."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.settings.json")


def new_file(folder: Path, task: str, *, resume: bool) -> Path:
    """A name that no evaluation has, `FOLDER/sudoku-2.jsonl`; to go on, the last one that has."""
    number = 1
    while (folder / f"{task}-{number}.jsonl").exists() or any(
        folder.glob(f"{task}-{number}-*.jsonl")
    ):
        number += 1
    return folder / f"{task}-{max(number - resume, 1)}.jsonl"


def of_length(path: Path, length: int) -> Path:
    """The file of one of several answer lengths: `NAME-256.jsonl`."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}-{length}.jsonl")
