"""Rows of each task of questions, and files of them in the current folder."""

import json
from pathlib import Path
from typing import Any

from dllmzoo.records import Key
from dllmzoo.zoo import TASKS

KEY = Key(0, 0, "prompts")

ROWS: dict[str, list[dict[str, Any]]] = {
    "gsm8k": [
        {
            "question": f"What is {i} + 1?",
            "answer": f"It is {i} + 1 = <<{i}+1={i + 1}>>{i + 1}.\n#### {i + 1}",
        }
        for i in range(20)
    ],
    "math500": [
        {"problem": f"What is ${i} + x$?", "solution": f"We add: \\boxed{{{i} + x}}.", "level": i}
        for i in range(20)
    ],
    "aime24": [{"problem": f"Problem {i}", "solution": "s", "answer": str(i)} for i in range(20)],
}
"""Twenty rows of a task, as its data set has them."""

GOLD = {"gsm8k": "{n}", "math500": "{i} + x", "aime24": "{i}"}
"""The right answer of row i, where n = i + 1."""


def gold(name: str, row: int) -> str:
    return GOLD[name].format(i=row, n=row + 1)


def jsonl(rows: list[dict[str, Any]], name: str = "train.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def question_task(name: str, **options: Any) -> Any:
    """A task that is tested on the first four rows and trained on the others."""
    rows = ROWS[name]
    files = {"file": jsonl(rows[4:]), "test_file": jsonl(rows[:4], "test.jsonl")}
    return TASKS.get(name)(**{**files, **options})
