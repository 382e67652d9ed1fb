"""Golden cases of family F: rewards as released, and what a right checker says."""

import importlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from dllmzoo.zoo import TASKS
from tests.golden.case import Case, handles

GSM8K = {
    "correctness": "correctness_released",
    "int": "int_released",
    "strict_format": "strict_format_released",
    "soft_format": "soft_format_released",
    "xmlcount": "xmlcount_released",
    "xmlcount_spg_variant": "xmlcount_spg_released",
}
MATH = {
    "correctness": "correctness_released",
    "boxed_and_answer_tags": "boxed_and_answer_tags_released",
}
SECONDS = 1.0
"""In which a hostile completion must be scored; with a worker that is warm."""


def component(
    task: str, name: str, row: dict[str, Any], example: dict[str, Any], **options
) -> float:
    """One component of a task built by name, of one completion."""
    made = TASKS.get(task)(rewards={name: 1.0}, **options)
    return made.reward([row["completion"]], [example]).part_XC.item()


def check_gsm8k(row: dict[str, Any]) -> None:
    example = {"question": "q", "answer": row["gold"]}
    for key, name in GSM8K.items():
        if key in row["released"]:
            assert component("gsm8k", name, row, example) == pytest.approx(row["released"][key]), (
                key
            )
    right = row["right"].get("correct")
    if right is not None:
        assert component("gsm8k", "correct", row, example) == float(right), row["comment"]


def check_math(row: dict[str, Any]) -> None:
    example = {"question": "q", "solution": row["gold_solution"], "answer": row["gold"]}
    for key, name in MATH.items():
        if key in row["released"]:
            expected = pytest.approx(row["released"][key])
            assert component("math500", name, row, example) == expected, row["comment"]
    if row["right"].get("correct") is not None:
        assert component("math500", "correct", row, example) == float(row["right"]["correct"])
    if row["right"].get("boxed_and_answer_tags") is not None:
        found = component("math500", "boxed_and_answer_tags", row, example)
        assert found == row["right"]["boxed_and_answer_tags"]


def check_countdown(row: dict[str, Any]) -> None:
    example = {"numbers": row["numbers"], "target": row["target"]}
    for name, expected in (
        ("expression_released", row["released"].get("countdown")),
        ("expression", row["right"].get("countdown")),
    ):
        if expected is not None:
            found = component("countdown", name, row, example)
            assert found == pytest.approx(expected), (name, row["comment"])


def check_sudoku(row: dict[str, Any]) -> None:
    example = {"puzzle": row["puzzle"], "solution": row["solution"]}
    released = component("sudoku", "cells_released", row, example, prompt_style="chat")
    assert released == pytest.approx(row["released"]["sudoku"]), row["comment"]
    if row["right"].get("solved") is not None:
        found = component("sudoku", "solved", row, example, prompt_style="chat")
        assert found == float(row["right"]["solved"]), row["comment"]


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "gsm8k": check_gsm8k,
    "math": check_math,
    "countdown": check_countdown,
    "sudoku4": check_sudoku,
}
EXAMPLES: dict[str, dict[str, Any]] = {
    "countdown": {"numbers": [99, 99, 99], "target": 5},
    "gsm8k": {"question": "q", "answer": "5"},
    "math500": {"question": "q", "solution": "\\boxed{5}", "answer": "5"},
    "aime24": {"question": "q", "answer": "5"},
}


@handles("F.rewards")
def check_rewards(case: Case) -> None:
    for row in case.data["rows"]:
        CHECKS[row["task"]](row)
    for completion in case.data["must_return_quickly"]:
        for task, example in EXAMPLES.items():
            made = TASKS.get(task)
            names = [name for name in components(task) if name != "signed"]
            start = time.perf_counter()
            found = made(rewards=dict.fromkeys(names, 1.0)).reward([completion], [example])
            assert time.perf_counter() - start < SECONDS, (task, completion)
            values = dict(zip(found.names, found.part_XC[0].tolist(), strict=True))
            for name in ("expression", "expression_released"):
                assert values.get(name, 0.0) in (0.0, pytest.approx(0.1)), (name, completion)
            assert values.get("correct", 0.0) == values.get("solved", 0.0) == 0.0


def components(task: str) -> tuple[str, ...]:
    """The components that a task knows."""
    return importlib.import_module(f"dllmzoo.tasks.{task}").COMPONENTS
