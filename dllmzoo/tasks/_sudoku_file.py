"""Puzzles of a CSV file with the columns Puzzle and Solution."""

from __future__ import annotations

from dllmzoo.errors import TaskError
from dllmzoo.tasks._grids import CELLS, VALID
from dllmzoo.tasks._tables import read_file

COLUMNS = ("Puzzle", "Solution")
SHOWN = 5
"""Bad rows that a message names one by one."""


def read_puzzles(path: str) -> list[dict[str, str]]:
    """Examples of a file as released with d1: 16 digits in reading order, 0 = blank.

    Raises:
        TaskError: the file or a column is missing, or rows are unusable; names their lines.
    """
    table = read_file(path, text_columns=COLUMNS, keep_blank=True)
    table.require(*COLUMNS)
    examples, problems = [], []
    for line, row in enumerate(table.rows, start=2):
        puzzle, solution = ((row[name] or "").strip() for name in COLUMNS)
        if not puzzle and not solution:
            continue
        if problem := _problem(puzzle, solution):
            problems.append(f"line {line}: {problem}")
        examples.append({"puzzle": puzzle, "solution": solution})
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise TaskError(f"{table.source}: {'; '.join(problems[:SHOWN])}{more}")
    if not examples:
        raise TaskError(f"{table.source} holds no rows")
    return examples


def _problem(puzzle: str, solution: str) -> str:
    """What is wrong with a row, or nothing."""
    for name, digits, allowed in (("Puzzle", puzzle, "01234"), ("Solution", solution, "1234")):
        if len(digits) != CELLS or set(digits) - set(allowed):
            lost = " (were leading zeros lost?)" if digits.isdigit() and len(digits) < CELLS else ""
            return f"{name} {digits!r} is not 16 digits {allowed[0]}-4{lost}"
    if solution not in VALID:
        return f"Solution {solution!r} repeats a digit in a row, a column or a box"
    if any(clue not in ("0", digit) for clue, digit in zip(puzzle, solution, strict=True)):
        return f"Solution {solution!r} changes a clue of Puzzle {puzzle!r}"
    return ""
