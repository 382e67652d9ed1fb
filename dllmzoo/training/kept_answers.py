"""Held-out answers at the start and the end of a run, kept to be compared one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from dllmzoo.training.evaluate import Evaluation
from dllmzoo.training.files import write_bytes


def keep_answers(folder: Path, when: Literal["start", "end"], task: Any, found: Evaluation) -> None:
    """Write evaluations/start.jsonl or end.jsonl: `prompt text solved reward` of each example.

    Args:
        folder: of the run.
        when: which of the two.
        task: its rewards are those of training; null where one does not count.
        found: one answer to each example.
    """
    rewards = task.reward(found.texts, found.examples)
    lines = [
        {
            "prompt": task.prompt(example),
            "text": text,
            "solved": solved,
            "reward": round(float(rewards.total_X[x]), 6) if bool(rewards.counted_X[x]) else None,
        }
        for x, (example, text, solved) in enumerate(
            zip(found.examples, found.texts, found.solved, strict=True)
        )
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_bytes(folder / "evaluations" / f"{when}.jsonl", text.encode())
