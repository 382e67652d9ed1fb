"""A training run as it is watched: a live line in a terminal, plain lines in a file."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from dllmzoo.cli import _output as out
from dllmzoo.cli._sparkline import sparkline

Row = Mapping[str, Any]

QUIET_SECONDS = 30.0
"""A plain log says something at least this often, if a round has ended."""


class Watcher(Protocol):
    """Shows rows of metrics as they come."""

    def __enter__(self) -> Watcher:
        """Before the first row."""
        ...

    def __exit__(self, *error: object) -> None:
        """After the last row, or when the run failed."""
        ...

    def show(self, row: Row, pace: Pace) -> None:
        """One round has ended."""
        ...


class Pace:
    """Rounds per second over the last rounds, and the time that is left.

    Args:
        rounds: of the whole run.
        max_seconds: wall time after which the run ends, or None.
    """

    def __init__(self, rounds: int, max_seconds: float | None = None) -> None:
        """The clock starts here."""
        self.rounds = rounds
        self.max_seconds = max_seconds
        self.started = time.monotonic()
        self.round = 0
        self._ends: deque[tuple[int, float]] = deque(maxlen=21)

    def end(self, round: int, now: float | None = None) -> None:
        """A round has ended (now)."""
        self.round = round
        self._ends.append((round, time.monotonic() if now is None else now))

    @property
    def per_second(self) -> float | None:
        """Rounds per second; None before two rounds have ended."""
        if len(self._ends) < 2:
            return None
        (first, start), (last, stop) = self._ends[0], self._ends[-1]
        return (last - first) / (stop - start) if stop > start else None

    @property
    def seconds_left(self) -> float | None:
        """Until the last round, or until the time is up."""
        if self.per_second is None:
            return None
        left = (self.rounds - self.round) / self.per_second
        if self.max_seconds is not None:
            left = min(left, self.max_seconds - (self._ends[-1][1] - self.started))
        return max(left, 0.0)


def watch(rows: Iterable[dict[str, Any]], watcher: Watcher, pace: Pace) -> Iterator[dict[str, Any]]:
    """The same rows, shown as they pass."""
    with watcher:
        for row in rows:
            pace.end(int(row["round"]))
            watcher.show(row, pace)
            yield row


def facts(row: Row, primary: str) -> list[tuple[str, str]]:
    """What a person wants to see of a round, as (label, number); what it lacks is left out.

    Args:
        row: metrics of a round.
        primary: name of the task's main metric, `solved_rate`.
    """
    word = primary.removesuffix("_rate")
    wanted = [
        ("reward", "reward"),
        (word, f"rollout/{primary}"),
        ("loss", "loss" if "reward" not in row else ""),
        ("KL", "kl"),
        ("clipped", "clip_fraction"),
        ("grad norm", "grad_norm"),
        (f"eval {word}", f"eval/{primary}"),
    ]
    return [(label, number(row[key])) for label, key in wanted if row.get(key) is not None]


def number(value: float) -> str:
    """Three digits that matter."""
    if value == 0 or 0.001 <= abs(value) < 1000:
        return f"{value:.3f}"
    return f"{value:.2e}"


def clock(seconds: float | None) -> str:
    """`1:02:03`, `2:03`, or `-:--` where it is not known."""
    if seconds is None:
        return "-:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def speed(pace: Pace) -> str:
    """`2.5 rounds/s`, or `31 s/round` where a round takes longer than a second."""
    rate = pace.per_second
    if rate is None:
        return ""
    return f"{rate:.2f} rounds/s" if rate >= 1 else f"{1 / rate:.1f} s/round"


class Plain:
    """One line every few rounds, and for each evaluation: for files and pipes.

    Args:
        every: rounds between lines; an evaluation and a long silence bring one too.
        primary: name of the task's main metric.
        say: takes a line.
    """

    def __init__(self, every: int, primary: str, say: Callable[[str], None] = out.say) -> None:
        """Nothing said yet."""
        self.every = every
        self.primary = primary
        self.say = say
        self.said = time.monotonic()

    def __enter__(self) -> Plain:
        """Nothing to prepare."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to tidy up."""

    def show(self, row: Row, pace: Pace) -> None:
        """Print the line if it is due."""
        round, now = int(row["round"]), time.monotonic()
        evaluated = row.get(f"eval/{self.primary}") is not None
        due = evaluated or round % self.every == 0 or round == pace.rounds
        if due or now - self.said >= QUIET_SECONDS:
            self.said = now
            words = [f"{label} {value}" for label, value in facts(row, self.primary)]
            if round:
                words += [speed(pace), f"{clock(pace.seconds_left)} left"]
            self.say("  ".join([f"round {round}/{pace.rounds}", *filter(None, words)]))
            out.flush()


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Silent:
        """Nothing to prepare."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to tidy up."""

    def show(self, row: Row, pace: Pace) -> None:
        """Nothing."""


class Live:
    """A bar with the time left, a line of numbers and the curve of the reward so far under it.

    Evaluations stay above it.

    Args:
        rounds: of the run.
        primary: name of the task's main metric.
    """

    def __init__(self, rounds: int, primary: str) -> None:
        """The bar, not shown yet."""
        from rich.console import Group
        from rich.live import Live as Display
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.text import Text

        self.primary = primary
        self.rewards: list[float | None] = []
        self.numbers = Text()
        self.progress = Progress(
            TextColumn("round"), MofNCompleteColumn(), BarColumn(),
            TextColumn("{task.fields[speed]}"), TextColumn("{task.fields[left]} left"),
        )  # fmt: skip
        self.bar = self.progress.add_task("round", total=rounds, speed="", left=clock(None))
        self.display = Display(
            Group(self.progress, self.numbers), console=out.console(), transient=True
        )

    def __enter__(self) -> Live:
        """Show the bar."""
        self.display.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""
        self.display.stop()

    def show(self, row: Row, pace: Pace) -> None:
        """Move the bar on and replace the numbers."""
        self.progress.update(
            self.bar, completed=int(row["round"]), speed=speed(pace), left=clock(pace.seconds_left)
        )
        words = [f"{label} {value}" for label, value in facts(row, self.primary)]
        if row.get("reward") is not None:
            self.rewards.append(row["reward"])
        curve = [sparkline(self.rewards)] if len(self.rewards) > 1 else []
        self.numbers.plain = "\n".join(["  ".join(words), *curve])
        if row.get(f"eval/{self.primary}") is not None:
            out.say("  ".join([f"round {row['round']}/{pace.rounds}", *words]))
