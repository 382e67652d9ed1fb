"""What an arm does: units that are timed, each standing for some of a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Unit:
    """One timed call.

    Args:
        run: does it; returns the seconds of each named part.
        times: how often the whole does such a thing.
        kind: units of one kind are warmed up once, by the first of them.
        warm: does so; None = by a run of the unit.
    """

    run: Callable[[], Mapping[str, float]]
    times: float = 1.0
    kind: str = "work"
    warm: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Work:
    """All units of an arm.

    Args:
        units: in order.
        flops: of the whole, by formula; 0 = not counted.
        tokens: of the whole, for the throughput; 0 = none.
        facts: what else was found out; the units may write into it.
    """

    units: list[Unit]
    flops: int = 0
    tokens: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    def warm_up(self) -> None:
        """The first unit of each kind, untimed."""
        first: dict[str, Unit] = {}
        for unit in self.units:
            first.setdefault(unit.kind, unit)
        for unit in first.values():
            (unit.warm or unit.run)()

    def measure(self) -> dict[str, float]:
        """Seconds of each part of the whole."""
        parts: dict[str, float] = {}
        for unit in self.units:
            for name, seconds in unit.run().items():
                parts[name] = parts.get(name, 0.0) + unit.times * seconds
        return parts
