"""The 288 solved 4x4 Sudoku grids: puzzles against them, and which of them are alike.

A grid is a string of 16 digits in reading order; in a puzzle `0` is a blank. Because there are so
few grids, a puzzle is solved by asking which of them agree with its clues: one AND of bitmasks
(bit g = grid g) per clue.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import torch

CELLS = 16
DIGITS = "1234"


def solved_grids() -> tuple[str, ...]:
    """All grids whose rows, columns and 2x2 boxes hold each digit once, in dictionary order."""
    return tuple(_completions(""))


def _completions(start: str) -> Iterator[str]:
    cell = len(start)
    if cell == CELLS:
        yield start
        return
    row, column = divmod(cell, 4)
    seen = {start[i] for i in range(cell) if _share_a_unit(i, row, column)}
    for digit in DIGITS:
        if digit not in seen:
            yield from _completions(start + digit)


def _share_a_unit(cell: int, row: int, column: int) -> bool:
    r, c = divmod(cell, 4)
    return r == row or c == column or (r // 2, c // 2) == (row // 2, column // 2)


GRIDS = solved_grids()
VALID = frozenset(GRIDS)
HAVING = [
    {digit: sum(1 << g for g, grid in enumerate(GRIDS) if grid[cell] == digit) for digit in DIGITS}
    for cell in range(CELLS)
]
"""Cell -> digit -> bitmask of the grids that have this digit there."""


def solutions(puzzle: str) -> int:
    """Bitmask of the grids that agree with every clue of the puzzle."""
    agreeing = (1 << len(GRIDS)) - 1
    for having, digit in zip(HAVING, puzzle, strict=True):
        if digit != "0":
            agreeing &= having.get(digit, 0)
    return agreeing


def count_solutions(puzzle: str) -> int:
    """How many grids complete the puzzle; 1 for a proper puzzle."""
    return solutions(puzzle).bit_count()


def relabelled(grid: str) -> str:
    """The grid with its digits renamed so that its first row is 1234; equal for 24 grids each."""
    return grid.translate(str.maketrans(grid[:4], DIGITS))


@lru_cache(maxsize=1)
def _orbits() -> dict[str, str]:
    """Grid -> first grid it can be turned into by renaming digits and moving rows and columns."""
    first: dict[str, str] = {}
    for start in GRIDS:
        if start in first:
            continue
        waiting = [start]
        while waiting:
            grid = waiting.pop()
            if grid not in first:
                first[grid] = start
                waiting += _neighbours(grid)
    return first


def _neighbours(grid: str) -> list[str]:
    rows = [grid[i : i + 4] for i in range(0, CELLS, 4)]
    return [
        relabelled(grid),
        *(grid.translate(str.maketrans(a + b, b + a)) for a, b in itertools.pairwise(DIGITS)),
        "".join("".join(column) for column in zip(*rows, strict=True)),
        "".join(rows[i] for i in (1, 0, 2, 3)),
        "".join(rows[i] for i in (0, 1, 3, 2)),
        "".join(rows[i] for i in (2, 3, 0, 1)),
    ]


def orbit(grid: str) -> str:
    """First grid of the same kind under all symmetries; the two kinds have 96 and 192 grids."""
    return _orbits()[grid]


@lru_cache(maxsize=2)
def _puzzles_by_blanks(grid: str) -> Counter[int]:
    """Number of blanks -> how many puzzles with exactly this solution."""
    ambiguous = torch.zeros([2] * CELLS, dtype=torch.bool)
    for other in GRIDS:
        if other != grid:
            ambiguous[tuple(int(a == b) for a, b in zip(grid, other, strict=True))] = True
    for cell in range(CELLS):
        ambiguous.select(cell, 0).logical_or_(ambiguous.select(cell, 1))
    clues = (~ambiguous).nonzero().sum(1)
    return Counter((CELLS - clues).tolist())


def count_puzzles(grid: str, fewest: int, most: int) -> int:
    """How many puzzles with `fewest` to `most` blanks have this grid as their only solution."""
    by_blanks = _puzzles_by_blanks(orbit(grid))
    return sum(by_blanks[blanks] for blanks in range(fewest, most + 1))
