"""How good a parsed answer to a Sudoku puzzle is; a grid is 16 characters, or None if unread."""

from __future__ import annotations

from collections.abc import Mapping

from dllmzoo.tasks._grids import VALID


def blank_cells(example: Mapping[str, str]) -> int:
    """Cells of the puzzle without a clue."""
    return example["puzzle"].count("0")


def correct_cells(grid: str | None, example: Mapping[str, str]) -> int:
    """Blank cells that equal the stored solution, whatever happened to the clues."""
    if grid is None:
        return 0
    cells = zip(example["puzzle"], example["solution"], grid, strict=True)
    return sum(clue == "0" and right == given for clue, right, given in cells)


def clues_kept(grid: str | None, example: Mapping[str, str]) -> bool:
    """Whether every clue of the puzzle stands where it was."""
    return grid is not None and all(
        clue in ("0", given) for clue, given in zip(example["puzzle"], grid, strict=True)
    )


def cell_share(grid: str | None, example: Mapping[str, str]) -> float:
    """Correct blank cells over blank cells; 0 where the puzzle has no blank."""
    return correct_cells(grid, example) / max(blank_cells(example), 1)


def solved(grid: str | None, example: Mapping[str, str]) -> bool:
    """Clues kept and rows, columns and boxes valid: any solution, not only the stored one."""
    return grid in VALID and clues_kept(grid, example)
