"""The lengths of all demonstrations, before the first is drawn: no late round stops a run."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.training.prompts import Codec

if TYPE_CHECKING:
    from dllmzoo.training.sft import Demonstrations

log = logging.getLogger("dllmzoo")

SHOWN = 3
"""Rows that a message names one by one."""
QUIET_SECONDS = 3.0
"""Measuring that takes longer is told."""


def measure(data: Demonstrations, codec: Codec, *, quiet: bool = False) -> int:
    """Tokenise every training row once, and count those that are too long.

    Only tasks whose rows are given have any: those with a method `training_rows() -> list`. A row
    may say under `at` where it stands.

    Args:
        data: the task, and what an answer may be.
        codec: its tokens.
        quiet: say nothing; another process does.

    Raises:
        TaskError: rows are too long and none may be left out, or none is left; names file and line.
    """
    given: Any = getattr(data.task, "training_rows", None)
    if given is None:
        return 0
    rows, begun, told = given(), time.monotonic(), quiet
    found: list[str] = []
    for number, row in enumerate(rows, start=1):
        at = row.get("at", f"training row {number}")
        try:
            problem = codec.misfit(
                data.task, row, Key(0, 0, "lengths"),
                answer_length=data.answer_length, tail=data.tail, row_length=data.pack,
            )  # fmt: skip
        except TaskError as error:
            raise TaskError(f"{at}: {error}") from error
        if problem is not None:
            found.append(f"{at}: {problem}")
        if not told and time.monotonic() - begun > QUIET_SECONDS:
            told = True
            log.info(f"measuring {len(rows):,} demonstrations before training; {number:,} are done")
    if not found:
        return 0
    text = "\n    ".join(found[:SHOWN])
    if len(found) > SHOWN:
        text += f"\n    and {len(found) - SHOWN:,} more"
    if data.too_long == "refuse":
        raise TaskError(
            f"{len(found):,} of {len(rows):,} demonstrations are too long. Make room, or leave "
            f"them out with sft.too_long: drop\n    {text}"
        )
    if len(found) == len(rows):
        raise TaskError(f"all {len(rows):,} demonstrations are too long\n    {text}")
    if not quiet:
        log.warning(
            f"{len(found):,} of {len(rows):,} demonstrations are too long and are left out "
            f"wherever they are drawn\n    {text}"
        )
    return len(found)
