"""Recipes of a second for the tests of the laboratory, and rows of runs that never ran."""

from pathlib import Path
from typing import Any

import yaml

from tests.runs import recipe


def write_recipe(path: Path, **changes: Any) -> str:
    """A recipe of two rounds as a file; returns its path as text."""
    train = {"rounds": 2, "prompts": 2, "group_size": 2, "micro_batch": 8, "log_rollouts": None}
    content = {"format": 1, **recipe(path.parent / "unused"), "train": train}
    content["evaluate"] = {"examples": 4, "steps": 4}
    content |= changes
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(path)


BREAKS = '''
"""A loss that is not a number where its clip says so."""
from dataclasses import dataclass
from typing import ClassVar
from dllmzoo import LOSSES

@LOSSES.register("breaks_here")
@dataclass(frozen=True)
class BreaksHere:
    """Not a number, an error, or the end of the process."""
    how: str = "nan"
    units: ClassVar[frozenset] = frozenset({"step"})
    needs_old: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    needs_exact_kl: ClassVar[bool] = False

    def __call__(self, new, old, reference, advantage_BU, units):
        if self.how == "error":
            raise ZeroDivisionError("by nothing")
        if self.how == "exit":
            import os
            os._exit(7)
        scale = float("nan") if self.how == "nan" else 1.0
        return units.mean(-advantage_BU * new.score_BU * scale, "unit"), {}
'''
"""A plug-in file."""


def rows(*scores: float, metric: str = "solved_rate", flops: float = 10.0) -> list[dict[str, Any]]:
    """Rows of a run that is evaluated every round: `scores[0]` is of round 0."""
    found: list[dict[str, Any]] = []
    for round, score in enumerate(scores):
        row: dict[str, Any] = {"round": round, "update": round, f"eval/{metric}": score}
        if round:
            row |= {"flops": flops, "time/update": 1.0, "time/elapsed": 60.0 * round}
        found.append(row)
    return found
