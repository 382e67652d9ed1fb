"""What stopped a run is noted in its manifest, for those who look at the folder later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dllmzoo.errors import DllmzooError, HealthError, Interrupted, RunError
from dllmzoo.training.folder import RunFolder


def noted(rows: Iterator[dict[str, Any]], folder: RunFolder) -> Iterator[dict[str, Any]]:
    """The same rows; an error that ends them is noted as `stopped: {by, why}` and raised again.

    A run that was refused before it began, or whose caller has had enough, is not noted.

    Args:
        rows: of a run.
        folder: of the run.
    """
    try:
        yield from rows
    except (Exception, KeyboardInterrupt) as error:
        refused = isinstance(error, DllmzooError) and error.exit_code == 2
        if not refused and os.environ.get("RANK", "0") == "0":
            with suppress(RunError, OSError):  # the run's own error is the one to tell
                if folder.manifest():
                    folder.note(stopped={"by": _by(error), "why": _why(error)})
        raise


def _by(error: BaseException) -> str:
    """The kind of end: a health check, an interrupt, or an error."""
    if isinstance(error, HealthError):
        return "a health check"
    return "an interrupt" if isinstance(error, Interrupted | KeyboardInterrupt) else "an error"


def _why(error: BaseException) -> str:
    """Its message; what is no error of ours is named too."""
    if isinstance(error, KeyboardInterrupt):
        return "at once, without saving"
    ours = isinstance(error, DllmzooError)
    return str(error) if ours else f"{type(error).__name__}: {error}"
