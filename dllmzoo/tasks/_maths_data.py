r"""Examples of maths problems: question, solution, and the right result without its box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dllmzoo.records import Example
from dllmzoo.tasks._boxed import last_boxed
from dllmzoo.tasks._numbers import read_number
from dllmzoo.tasks._questions import first_of, question_of

QUESTION = ("problem", "question", "Problem", "Question")
RESULT = ("answer", "ground_truth_answer", "Answer")
SOLUTION = ("solution", "Solution")
COLUMNS = (QUESTION, (*SOLUTION, *RESULT))
TEXT = (*QUESTION, *RESULT, *SOLUTION)
FORMULA_WAYS = ("boxed", "tag", "nothing")
"""How the result of a maths problem may be found."""


def maths_example(row: Mapping[str, Any]) -> Example:
    """The last boxed result of the solution is the right one; without, the answer column is.

    Raises:
        ValueError: no question, or no result.
    """
    solution, result = first_of(row, SOLUTION), first_of(row, RESULT)
    worked = solution if isinstance(solution, str) else ""
    gold = last_boxed(worked)
    if gold is None and result is not None:
        gold = last_boxed(str(result)) or str(result)
    if gold is None or not gold.strip():
        raise ValueError("no right answer: neither a boxed result in the solution nor an answer")
    return {"question": question_of(row, QUESTION), "solution": worked, "answer": gold.strip()}


def integer_example(row: Mapping[str, Any]) -> Example:
    """A problem whose result is an integer from 0 to 999, as in AIME.

    Raises:
        ValueError: no question, or another result.
    """
    stated = first_of(row, RESULT)
    example = maths_example(row if stated is None else {**row, "solution": None, "Solution": None})
    if integer(str(example["answer"])) is None:
        raise ValueError(f"the right answer {example['answer']!r} is no integer from 0 to 999")
    return {**example, "solution": str(first_of(row, SOLUTION) or "")}


def integer(text: str | None) -> int | None:
    """The integer from 0 to 999 that a text states; None for anything else."""
    number = None if text is None else read_number(text)
    if number is None or number.denominator != 1 or not 0 <= number <= 999:
        return None
    return int(number)
