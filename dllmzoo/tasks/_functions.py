"""Reward functions of the user, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dllmzoo.errors import DuplicateNameError
from dllmzoo.registry import location
from dllmzoo.tasks._rewards import RewardFunction

F = TypeVar("F", bound=RewardFunction)
BUILT_IN = ("exact_match", "contains")
"""Comparisons with the answer column, which need no function of the user."""


@dataclass(frozen=True)
class Named:
    """A registered reward function, the columns it reads, and whether it may overlap."""

    function: RewardFunction
    columns: tuple[str, ...]
    overlaps: bool = False


FUNCTIONS: dict[str, Named] = {}


def reward(name: str, *, columns: tuple[str, ...] = (), overlaps: bool = False) -> Callable[[F], F]:
    """Decorator that makes a function usable as `task.rewards: {name: weight}`.

    The function is called as `function(texts, records)` with two lists of one length and returns
    one entry for each text: a number, or None to abstain. A record is the row of the data as a
    mapping from column to value.

    Args:
        name: how recipes call it.
        columns: columns the function reads; data without one of them are refused when they are
            opened, before any training.
        overlaps: True lets it be called in a thread beside the main one, a part of the round's
            texts at a time, while others are sampled: for a reward that waits, for a server or a
            process. Signals, and time limits made of them, work in the main thread only.

    Example:
        >>> @reward("short", columns=("limit",))
        ... def short(texts, records):
        ...     return [float(len(t) <= r["limit"]) for t, r in zip(texts, records)]

    Raises:
        DuplicateNameError: another function has the name.
    """

    def decorate(function: F) -> F:
        holder = FUNCTIONS.get(name)
        if name in BUILT_IN:
            raise DuplicateNameError(
                f"the reward {name!r} is built in; choose another name for {location(function)}"
            )
        if holder and location(holder.function) != location(function):
            raise DuplicateNameError(
                f"the reward {name!r} is declared twice: at {location(holder.function)} "
                f"and at {location(function)}; rename one of them"
            )
        FUNCTIONS[name] = Named(function, tuple(columns), overlaps)
        return function

    return decorate


def known_rewards() -> tuple[str, ...]:
    """Names that `records` accepts now: built-in and declared ones."""
    return (*BUILT_IN, *FUNCTIONS)
