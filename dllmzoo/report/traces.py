"""Which answers of rollouts/ a page shows, and entropy by denoising step over the rounds."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROUNDS = 6
"""Rollout files that a page reads of one run."""
GROUPS = 2
"""Prompts of a round."""
ANSWERS = 3
"""Answers to one prompt: the best, the worst, one between."""
DIGITS = 4
UNREAD = ("answer_ids",)
"""Keys of a line that the page has no use for."""

Line = dict[str, Any]


def rollout_files(folder: Path) -> dict[int, Path]:
    """Round -> file, in order."""
    files = (folder / "rollouts").glob("*.jsonl.gz")
    named = [(path.name.partition(".")[0], path) for path in files]
    return {int(name): path for name, path in sorted(named) if name.isdigit()}


def read_lines(file: Path) -> list[Line]:
    """The samples of one round; nothing where the file is damaged."""
    try:
        text = gzip.decompress(file.read_bytes()).decode("utf-8")
        return [json.loads(line) for line in text.splitlines()]
    except (OSError, EOFError, ValueError):
        return []


def spread(values: Sequence[int], number: int) -> list[int]:
    """`number` of the values at even distances, first and last among them."""
    if len(values) <= number:
        return list(values)
    if number == 1:
        return [values[-1]]
    last = len(values) - 1
    return [values[round(i * last / (number - 1))] for i in range(number)]


def chosen(lines: Sequence[Line], groups: int = GROUPS, answers: int = ANSWERS) -> list[Line]:
    """Answers worth looking at: of the prompts whose rewards differ most, best, worst, between."""
    by_group: dict[int, list[Line]] = {}
    for line in lines:
        by_group.setdefault(line.get("group", 0), []).append(line)

    def reward(line: Line) -> float:
        return -math.inf if line.get("reward") is None else line["reward"]

    def width(group: list[Line]) -> float:
        known = [r for r in map(reward, group) if math.isfinite(r)]
        return max(known) - min(known) if known else -1.0

    best = sorted(by_group.values(), key=width, reverse=True)[:groups]
    found = []
    for group in best:
        ranked = sorted(group, key=reward, reverse=True)
        found += [ranked[i] for i in spread(range(len(ranked)), answers)]
    return found


def trace(line: Line, **more: Any) -> dict[str, Any]:
    """A line as the viewer reads it: numbers of four digits, what it does not read left out."""
    return {k: _short(v) for k, v in line.items() if k not in UNREAD} | more


def by_step(lines: Sequence[Line]) -> dict[str, list[float | None]]:
    """By step, over samples: `entropy`, mean at commit, and `chosen`, share of samples."""
    total: dict[int, float] = {}
    count: dict[int, int] = {}
    picked: dict[int, int] = {}
    for line in lines:
        for step, nats in zip(line.get("reveal", ()), line.get("entropy", ()), strict=False):
            if step >= 0:
                total[step] = total.get(step, 0.0) + nats
                count[step] = count.get(step, 0) + 1
        for step in {s for span in line.get("steps") or () for s in _span(span)}:
            picked[step] = picked.get(step, 0) + 1
    steps = range(max([*count, *picked], default=-1) + 1)
    entropy = [_short(total[s] / count[s]) if s in count else None for s in steps]
    share = [_short(picked.get(s, 0) / len(lines)) for s in steps] if picked else []
    return {"entropy": entropy, "chosen": share}


def _span(step: dict[str, Any]) -> Iterator[int]:
    if step.get("weight", 1):
        yield from range(step["start"], step["stop"])


def read_run(folder: Path, budget: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """Traces of a run and its entropy by step.

    Args:
        folder: of the run.
        budget: bytes of JSON that the traces may take; fewer answers are shown where they are
            long.
        rounds: files that are read.

    Returns:
        `traces`, `by_step` (with `round` in each), `seen` (answers in the files read) and
        `files` (read, there).
    """
    files = rollout_files(folder)
    read = {round: read_lines(files[round]) for round in spread(list(files), rounds)}
    wanted = [trace(line, round=round) for round, lines in read.items() for line in chosen(lines)]
    return {
        "traces": fitting(wanted, budget),
        "by_step": [{"round": r, **by_step(lines)} for r, lines in read.items() if lines],
        "seen": sum(map(len, read.values())),
        "files": [len(read), len(files)],
    }


def fitting(traces: list[dict[str, Any]], budget: int) -> list[dict[str, Any]]:
    """As many traces as fit into `budget` bytes, at even distances; one at least."""
    sizes = [len(json.dumps(each, ensure_ascii=True)) for each in traces]
    for number in range(len(traces), 1, -1):
        kept = spread(range(len(traces)), number)
        if sum(sizes[i] for i in kept) <= budget:
            return [traces[i] for i in kept]
    return traces[-1:]


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, list):
        return [_short(each) for each in value]
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    return value
