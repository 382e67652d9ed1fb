"""Which solved grids train and which test, so that no test solution is ever seen in training."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Literal

from dllmzoo.tasks._grids import GRIDS, orbit, relabelled

Split = Literal["by_solution", "by_relabelling", "by_symmetry"]
HELD_SHARE = 4
"""One class in four is held out: 72 of the 288 grids, or 3 of the 12 classes of 24."""


def kind(grid: str, split: Split) -> str:
    """The class of a grid that a split keeps on one side, named by one of its grids."""
    if split == "by_solution":
        return grid
    return relabelled(grid) if split == "by_relabelling" else orbit(grid)


def held_out(split: Split, seed: int) -> frozenset[str]:
    """The test grids: 72 of `by_solution` and `by_relabelling`, 96 of `by_symmetry`.

    The order comes from a hash, not from a random generator, so a shipped checkpoint keeps its
    test set whatever library version reads it. `by_symmetry` has only two classes (96 and 192
    grids); the smaller one is always the test side.
    """
    members: dict[str, list[str]] = {}
    for grid in GRIDS:
        members.setdefault(kind(grid, split), []).append(grid)
    if split == "by_symmetry":
        return frozenset(min(members.values(), key=len))
    shuffled = sorted(members, key=lambda name: shuffle_rank(seed, name))
    return frozenset(
        grid for name in shuffled[: len(shuffled) // HELD_SHARE] for grid in members[name]
    )


def training_grids(split: Split, test_grids: Collection[str]) -> tuple[str, ...]:
    """The grids whose class holds none of the test grids, in dictionary order."""
    closed = {kind(grid, split) for grid in test_grids}
    return tuple(grid for grid in GRIDS if kind(grid, split) not in closed)


def shuffle_rank(seed: int, name: str) -> bytes:
    """A sort key that orders names at random, the same way everywhere and for ever."""
    return hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
