"""Sudoku puzzles with exactly one solution, made from solved grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from dllmzoo.tasks._grids import CELLS, HAVING, count_puzzles

MOST_BLANKS = 12
"""Fewer than 4 clues always leave more than one solution; every grid has puzzles with 12 blanks."""

ORDERS = 16
"""Random orders of the cells drawn at a time; changing it changes every generated puzzle."""


def puzzles(
    grids: Sequence[str], blanks: tuple[int, int], generator: torch.Generator
) -> Iterator[dict[str, str]]:
    """Endless independent puzzles, `{"puzzle": ..., "solution": ...}`.

    A solution and a number of blanks are drawn uniformly, then a set of that many blanks uniformly
    among those that leave one solution.

    Args:
        grids: the solutions to draw from; at least one.
        blanks: fewest and most blanks, both included, in [0, 12].
        generator: the only source of randomness.
    """
    fewest, most = blanks
    while True:
        grid = grids[int(torch.randint(len(grids), (), generator=generator))]
        count = int(torch.randint(fewest, most + 1, (), generator=generator))
        yield {"puzzle": _with_blanks(grid, count, generator), "solution": grid}


def distinct_puzzles(
    grids: Sequence[str], blanks: tuple[int, int], num: int, generator: torch.Generator
) -> list[dict[str, str]]:
    """The first `num` different puzzles of `puzzles`; all there are, where there are fewer."""
    num = min(num, sum(count_puzzles(grid, *blanks) for grid in grids))
    found: dict[str, dict[str, str]] = {}
    endless = puzzles(grids, blanks, generator)
    while len(found) < num:
        example = next(endless)
        found.setdefault(example["puzzle"], example)
    return list(found.values())


def _with_blanks(grid: str, count: int, generator: torch.Generator) -> str:
    """The grid with `count` cells blanked so that no other grid fits, all such sets alike."""
    agreeing = [having[digit] for having, digit in zip(HAVING, grid, strict=True)]
    while True:
        for order in torch.rand(ORDERS, CELLS, generator=generator).argsort(1).tolist():
            remaining = -1
            for cell in order[count:]:
                remaining &= agreeing[cell]
            if remaining.bit_count() == 1:
                blank = set(order[:count])
                return "".join("0" if i in blank else digit for i, digit in enumerate(grid))
