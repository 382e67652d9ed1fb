"""Held-out examples before and after training: rates, differences, and which answers changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SHOWN = 12
"""Changed answers of each sort that a page shows."""


def read_outcomes(folder: Path) -> dict[str, dict[str, list[int]]]:
    """evaluations.json: `start` and `end` (and `before`) -> steps -> 0 or 1 of each example."""
    try:
        found = json.loads((folder / "evaluations.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def table(outcomes: dict[str, dict[str, list[int]]]) -> list[dict[str, Any]]:
    """One row for each number of steps and moment, with 95 % intervals.

    `label steps examples rate low high`, and after training `gain gain_low gain_high improved
    worse`: the difference to the start on the same examples, and how many changed.
    """
    from dllmzoo.training.evaluate import paired
    from dllmzoo.training.pass_at_k import wilson

    labels = {"before": "base before its careless stage", "start": "start", "end": "end"}
    rows = []
    for steps in dict.fromkeys(step for when in outcomes.values() for step in when):
        base = outcomes.get("start", {}).get(steps)
        for when, label in labels.items():
            hits = outcomes.get(when, {}).get(steps)
            if not hits:
                continue
            low, high = wilson(sum(hits), len(hits))
            row: dict[str, Any] = {
                "label": label, "steps": "the sampler's own" if steps == "None" else steps,
                "examples": len(hits), "rate": sum(hits) / len(hits), "low": low, "high": high,
            }  # fmt: skip
            if when != "start" and base:
                gain, gain_low, gain_high = paired([b > 0 for b in base], [h > 0 for h in hits])
                pairs = list(zip(base, hits, strict=False))
                known = gain_low < gain_high  # no example changed: no interval
                row |= {"gain": gain, "gain_low": gain_low if known else None}
                row |= {"gain_high": gain_high if known else None}
                row |= {"improved": pairs.count((0, 1)), "worse": pairs.count((1, 0))}
            rows.append(row)
    return rows


def read_answers(file: Path) -> list[dict[str, Any]]:
    """The answers that `training.kept_answers` wrote; nothing if there are none."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except (FileNotFoundError, ValueError):
        return []


def changed(folder: Path) -> dict[str, Any] | None:
    """Answers of evaluations/start.jsonl that end.jsonl gives otherwise.

    None without both, or while a resumed run goes on beyond an earlier end.

    `improved` and `worse` hold `prompt before after reward_before reward_after`: those that
    became right or wrong first, then those whose reward moved, the largest change first.
    """
    both = [read_answers(folder / "evaluations" / f"{when}.jsonl") for when in ("start", "end")]
    if not all(both) or "end" not in read_outcomes(folder):
        return None
    moved = []
    for before, after in zip(*both, strict=False):
        solved = int(bool(after.get("solved"))) - int(bool(before.get("solved")))
        reward = (after.get("reward") or 0.0) - (before.get("reward") or 0.0)
        if before.get("prompt") == after.get("prompt") and (solved or reward):
            moved.append((solved, reward, before, after))
    better = [each for each in moved if (each[0], each[1]) > (0, 0)]
    worse = [each for each in moved if (each[0], each[1]) < (0, 0)]
    better.sort(key=lambda each: (-each[0], -each[1]))
    worse.sort(key=lambda each: (each[0], each[1]))
    return {
        "improved": [_pair(*each[2:]) for each in better[:SHOWN]],
        "worse": [_pair(*each[2:]) for each in worse[:SHOWN]],
        "num_improved": len(better),
        "num_worse": len(worse),
        "examples": min(map(len, both)),
    }


def _pair(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompt": prompt_text(before.get("prompt")),
        "before": before.get("text", ""), "after": after.get("text", ""),
        "solved_before": before.get("solved"), "solved_after": after.get("solved"),
        "reward_before": before.get("reward"), "reward_after": after.get("reward"),
    }  # fmt: skip


def prompt_text(prompt: Any) -> str:
    """A prompt to read: messages one under the other."""
    if isinstance(prompt, Sequence) and not isinstance(prompt, str):
        return "\n".join(f"{each.get('role')}: {each.get('content')}" for each in prompt)
    return str(prompt)
