"""Every error dllmzoo raises on purpose: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class DllmzooError(Exception):
    """Base of all dllmzoo errors; the command line prints them without a traceback.

    `exit_code` is the status the command line ends with: 1 failed run, 2 bad recipe or usage,
    3 stopped by a health check, 130 interrupted after saving.
    """

    exit_code: ClassVar[int] = 1


class UsageError(DllmzooError, ValueError):
    """A value the user gave (a flag, an argument, a file) cannot be used."""

    exit_code = 2


class DuplicateNameError(DllmzooError, ValueError):
    """Two different objects claim one name in one registry."""

    exit_code = 2


class UnknownNameError(DllmzooError, LookupError):
    """No component of that name."""

    exit_code = 2


class PluginError(DllmzooError, ImportError):
    """A plug-in of the user could not be imported; names the plug-in."""

    exit_code = 2


class ModelError(DllmzooError, ValueError):
    """A checkpoint, a config, a tokenizer and a model family do not belong together."""

    exit_code = 2


class TaskError(DllmzooError, ValueError):
    """Data or a reward function of a task is unusable: a missing column, a wrong length."""


class RunError(DllmzooError, RuntimeError):
    """A run cannot go on: its folder, its checkpoint or its processes are not as they must be."""


class HealthError(DllmzooError, RuntimeError):
    """A health check stopped the run: a non-finite number or a collapsed policy."""

    exit_code = 3


class Interrupted(DllmzooError):
    """The run was asked to stop; what was saved is named in the message."""

    exit_code = 130


@dataclass(frozen=True, order=True)
class Problem:
    """One finding at one place of a recipe.

    Args:
        where: `recipes/x.yaml:7:3`, file, line and column, both counted from 1; the name of the
            source alone where there is no text (`recipe`, `override loss.clip_low`).
        path: the dotted path of the key, `loss.clip_low`.
        message: what is wrong.
        hint: what to do; may be empty.
    """

    where: str
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: {self.path}: " if self.path else f"{self.where}: "
        return f"{place}{self.message}" + (f"\n    {self.hint}" if self.hint else "")


class RecipeError(DllmzooError, ValueError):
    """A recipe does not fit the code; carries *all* problems found."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems in reading order."""
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))
