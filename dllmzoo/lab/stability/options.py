"""Which runs of the stability lab are asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dllmzoo.errors import UsageError
from dllmzoo.lab.grid import refuse_taken
from dllmzoo.lab.runs import Arm
from dllmzoo.lab.stability.arms import RIVALS
from dllmzoo.lab.stability.conditions import CONDITIONS

TAKEN = {
    "seed": "--seeds",
    "output": "--output",
    "loss": "the arm and the condition",
    "likelihood": "the condition",
}
"""Keys whose change would make runs equal that are told apart, and who sets them."""

QUICK = {"base": ("grpo", "stable_drl")}
"""Conditions and arms of the quick grid."""


@dataclass(frozen=True)
class Options:
    """What to run.

    Args:
        grid: `quick`, the two ends of the claim in condition `base`; `full`, every condition with
            its arms.
        conditions: names instead of those of the grid; each brings its arms.
        arms: names instead of those that grid and conditions bring.
        seeds: run seeds 0 to seeds - 1 of every arm; None = as many as each condition has.
        changes: further changes to the recipe of every run, `key=value`.
        jobs: processes.
        output: folder, resumable; the full grid goes on from the quick one.
    """

    grid: Literal["quick", "full"] = "quick"
    conditions: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    seeds: int | None = None
    changes: tuple[str, ...] = ()
    jobs: int = 2
    output: Path = Path("runs/stability")

    @property
    def whole(self) -> bool:
        """Whether this is the full grid with nothing left out."""
        return self.grid == "full" and not self.conditions and not self.arms

    def cells(self) -> list[tuple[str, str, int]]:
        """Condition, arm and seed of every run, in the order of the tables.

        Raises:
            UsageError: a name is unknown, the seeds are none, or nothing is left to run.
        """
        _refuse_unknown("condition", self.conditions, CONDITIONS)
        _refuse_unknown("arm", self.arms, RIVALS)
        if self.seeds is not None and self.seeds < 1:
            raise UsageError("--seeds must be 1 or more")
        whole = self.grid == "full"
        names = tuple(dict.fromkeys(self.conditions)) or tuple(CONDITIONS if whole else QUICK)
        found = []
        for condition in (CONDITIONS[name] for name in names):
            brought = condition.arms if whole or self.conditions else QUICK[condition.name]
            for arm in dict.fromkeys(self.arms or brought):
                if condition.only is None or arm in condition.only:
                    seeds = range(condition.seeds if self.seeds is None else self.seeds)
                    found += [(condition.name, arm, seed) for seed in seeds]
        if not found:
            limits = [
                f"{name} changes nothing but {' and '.join(CONDITIONS[name].only or ())}"
                for name in names
            ]
            raise UsageError(f"nothing to run for {', '.join(self.arms)}: {'; '.join(limits)}")
        return found

    def runs(self) -> list[Arm]:
        """The runs, in the order of `cells`.

        Raises:
            UsageError: as `cells`, or a change is of what tells the runs apart.
        """
        refuse_taken(self.changes, TAKEN)
        return [CONDITIONS[name].run(arm, seed, self.changes) for name, arm, seed in self.cells()]


def _refuse_unknown(what: str, names: Sequence[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
            guess = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise UsageError(f"there is no {what} {name!r}.{guess} There are: {', '.join(known)}.")
