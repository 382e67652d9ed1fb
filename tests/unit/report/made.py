"""Run folders written by hand, in the documented formats: seconds instead of training."""

import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import yaml

from tests.docs.metrics_table import documented

PUZZLE, SOLVED, WRONG = "1000040000100002", "1234341221434321", "1214343121224341"


def metric_keys() -> list[str]:
    """Every key of docs/metrics.md, with a name for each word in capitals."""
    names = {"NAME": "solved_rate", "PART": "update", "N": "4"}
    keys = [re.sub(r"NAME|PART|(?<=steps)N", lambda m: names[m[0]], key) for key in documented()]
    return [key for key in keys if not key.endswith(("_low", "_high"))]


def line(
    *, tokens: list[str], reveal: list[int], prompt: str = f"{PUZZLE}=", reward: float = 0.5,
    sample: int = 0, group: int = 0, steps: int | None = None, chosen: tuple[int, ...] = (),
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """One sample of rollouts/; the k-th chosen step has guess reward k/10 and advantage k - 0.5."""
    N = len(tokens)
    T = max(reveal) + 1 if steps is None else steps
    text = "".join(tokens)
    return {
        "sample": sample, "group": group, "prompt": prompt, "answer": text,
        "answer_ids": list(range(N)), "reveal": reveal,
        "entropy": [round(0.1 * (step + 1), 6) for step in reveal],
        "confidence": [round(1 - 0.5 * n / N, 6) for n in range(N)],
        "logprob": [-0.25] * N, "tokens": tokens, "block_entropy": [0.3] * T, "num_steps": T,
        "reward": reward, "components": {"cells": reward},
        "advantage": [k - 0.5 for k in range(len(chosen))] or [0.25],
        "steps": [
            {"start": s, "stop": s + 1, "weight": 1.0,
             "guesses": [{"text": text, "reward": k / 10}]}
            for k, s in enumerate(chosen)
        ],
        **more,
    }  # fmt: skip


def sudoku_line(**more: Any) -> dict[str, Any]:
    """16 slots in 4 steps, four a step, row after row; steps 3 and 2 chosen."""
    words: dict[str, Any] = {
        "tokens": list(SOLVED), "reveal": [n // 4 for n in range(16)], "chosen": (3, 2),
    }  # fmt: skip
    return line(**(words | more))


def run(
    folder: Path, rounds: int = 4, *, every: int = 1, keys: list[str] | None = None,
    rollouts: dict[int, list[dict[str, Any]]] | None = None, finished: bool = True,
    recipe: dict[str, Any] | None = None, level: float = 0.0,
) -> Path:  # fmt: skip
    """A run folder: round 0, then `rounds`, evaluated each `every`."""
    folder.mkdir(parents=True)
    keys = metric_keys() if keys is None else keys
    rows = []
    for round in range(rounds + 1):
        row: dict[str, Any] = {"round": round, "update": 2 * round}
        evaluated = round % every == 0
        for k, key in enumerate(keys):
            if (key.startswith("eval/") and not evaluated) or key in row:
                continue
            row[key] = level + 0.5 + 0.4 * math.sin(round / 5 + k)
        if evaluated:
            row |= {"eval/solved_rate_low": 0.1, "eval/solved_rate_high": 0.9 + level}
        rows.append(row)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = {
        "format": 1, "title": "made by hand", "seed": 0, "task": {"name": "sudoku"},
        "loss": {"name": "clipped_surrogate", "clip_low": 0.2}, "train": {"rounds": rounds},
    }  # fmt: skip
    (folder / "recipe.resolved.yaml").write_text(yaml.safe_dump(base | (recipe or {})))
    done = {"round": rounds, "minutes": 1.0} if finished else None
    manifest = {"format": 1, "title": "made by hand", "seed": 0, "versions": {}, "finished": done}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    wanted = {rounds: [sudoku_line()]} if rollouts is None else rollouts
    for round, lines in wanted.items():
        write_rollouts(folder, round, lines)
    return folder


def write_rollouts(folder: Path, round: int, lines: list[dict[str, Any]]) -> None:
    """rollouts/ROUND.jsonl.gz."""
    (folder / "rollouts").mkdir(exist_ok=True)
    text = "".join(json.dumps(each) + "\n" for each in lines)
    path = folder / "rollouts" / f"{round:06d}.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode(), 1))


def outcomes(folder: Path, start: list[int], end: list[int]) -> None:
    """evaluations.json."""
    found = {"start": {"8": start}, "end": {"8": end}}
    (folder / "evaluations.json").write_text(json.dumps(found))


def kept(folder: Path, when: str, texts: list[str], solved: list[bool]) -> None:
    """evaluations/start.jsonl or end.jsonl."""
    (folder / "evaluations").mkdir(exist_ok=True)
    lines = [
        {"prompt": f"{PUZZLE}=", "text": text, "solved": hit, "reward": 1.0 if hit else 0.25}
        for text, hit in zip(texts, solved, strict=True)
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (folder / "evaluations" / f"{when}.jsonl").write_text(text)
