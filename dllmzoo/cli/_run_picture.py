"""`dllmzoo show run`: a run in the terminal, from its folder alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dllmzoo.cli import _output as out
from dllmzoo.cli._progress import clock, number
from dllmzoo.cli._sparkline import sparkline
from dllmzoo.errors import UsageError

LABELS = {"kl": "KL", "clip_fraction": "clipped", "grad_norm": "grad norm"}


def show_run(folder: Path, *, as_json: bool) -> None:
    """The picture of a run, or its numbers as JSON.

    Raises:
        UsageError: the folder holds no run, or a file of it cannot be read.
    """
    from dllmzoo.report.folders import is_run
    from dllmzoo.report.glance import glance

    if not is_run(folder):
        raise UsageError(
            f"{folder} holds no run (no recipe.resolved.yaml, no metrics.jsonl); give the folder "
            f"that the recipe's `output` names"
        )
    try:
        seen = glance(folder)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error
    if as_json:
        out.say_json(seen)
        return
    out.say(f"run {seen['title'] or folder.name}", style="bold")
    rows = [*facts(seen), *curves(seen["curves"]), *costs(seen["times"])]
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        out.say(f"{label.ljust(width)}  {text}")
    for sentence in seen["warnings"]:
        out.say(f"warning: {sentence}", style="yellow")


def facts(seen: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Where the run stands and what its evaluations say."""
    yield "folder", seen["folder"]
    made_by = [seen["method"] or "no method named", seen["stage"]]
    made_by += [] if seen["seed"] is None else [f"seed {seen['seed']}"]
    yield "method", ", ".join(filter(None, made_by))
    yield "state", state(seen)
    found = seen["evaluation"]
    if found is not None:
        first, last, best = found["first"], found["last"], found["best"]
        yield f"eval {found['metric'].removesuffix('_rate')}", evaluated(last)
        if last["round"] > first["round"]:
            yield "", f"{evaluated(best)}, the best"
            yield "", f"{evaluated(first)}, the first"


def state(seen: Mapping[str, Any]) -> str:
    """Rounds, time, and whether it goes on."""
    planned = "" if seen["planned"] is None else f" of {seen['planned']}"
    rounds = f"round {seen['rounds']}{planned}"
    if seen["seconds"] is not None:
        rounds += f", {clock(seen['seconds'])}"
    if seen["state"] == "finished":
        return f"finished: {rounds}"
    if seen["state"] == "stopped":
        return f"stopped in {rounds}, by {seen['why']}"
    ago = f"last sign of life {clock(seen['silent'])} ago"
    if seen["state"] == "running":
        return f"running: {rounds}; {ago}"
    return f"not finished: {rounds}; {ago}; was it killed? --resume auto goes on"


def evaluated(point: Mapping[str, Any]) -> str:
    """`0.371 (0.330 to 0.414) in round 300`."""
    ends = "" if point["low"] is None else f" ({number(point['low'])} to {number(point['high'])})"
    return f"{number(point['value'])}{ends} in round {point['round']}"


def curves(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """A sparkline for each curve, with its ends and its range."""
    for curve in found:
        values = [value for value in curve["values"] if value is not None]
        key = curve["key"].removeprefix("rollout/").removesuffix("_rate")
        if min(values) == max(values):
            yield LABELS.get(key) or key, f"{number(values[0])} in every round"
            continue
        ends = f"{number(values[0])} to {number(values[-1])}"
        span = f"lowest {number(min(values))}, highest {number(max(values))}"
        yield LABELS.get(key) or key, f"{sparkline(curve['values'])}  {ends}  ({span})"


def costs(times: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Seconds of a round, the dearest part first."""
    parts = {name: value for name, value in times.items() if name != "evaluate"}
    if not parts:
        return
    ranked = sorted(parts.items(), key=lambda item: -item[1])
    each = ", ".join(f"{name} {value:.3g} s" for name, value in ranked)
    yield "a round", f"{sum(parts.values()):.3g} s: {each}"
    if "evaluate" in times:
        yield "", f"and {times['evaluate']:.3g} s for an evaluation"
