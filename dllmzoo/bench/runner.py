"""Runs every arm in a process of its own, the ways of a case in turns. Imports no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dllmzoo.bench.cases import Case
from dllmzoo.bench.machine import load, machine
from dllmzoo.bench.results import summary
from dllmzoo.errors import RunError

LAST_LINES = 15
"""Lines of a failed worker's messages that are shown."""

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Settings:
    """What all arms of a run share.

    Args:
        size: name of a size.
        device: `cpu` or `cuda`.
        dtype: of the weights, where a case does not say otherwise.
        repeats: processes of each way.
        threads: of torch; None = its default.
    """

    size: str
    device: str
    dtype: str
    repeats: int
    threads: int | None = None


def turns(case: Case, repeats: int) -> Iterator[str]:
    """Ways in the order in which they run: every way once, then every way again."""
    for _ in range(repeats):
        yield from case.ways


def measure(
    cases: Sequence[Case],
    settings: Settings,
    *,
    told: Callable[[str], None] = lambda _: None,
    each: Report = lambda _: None,
) -> dict[str, Any]:
    """Run all arms of the cases.

    Args:
        cases: one after the other.
        settings: of all of them.
        told: takes a line before each arm.
        each: takes the whole record after each case, so that nothing is lost.

    Returns:
        The record, as JSON has it.

    Raises:
        RunError: a worker failed.
    """
    record: dict[str, Any] = {
        "format": 1, "settings": asdict(settings), "machine": machine(),
        "load_at_start": load(), "cases": [],
    }  # fmt: skip
    for case in cases:
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in case.ways}
        for number, way in enumerate(turns(case, settings.repeats)):
            told(f"{case.name}: {way}, {number // len(case.ways) + 1} of {settings.repeats}")
            found[way].append(run_arm(case, way, settings))
        record["machine"]["gpu"] = found[case.baseline][0]["gpu"]
        record["machine"]["threads"] = found[case.baseline][0]["threads"]
        record["cases"].append(summary(case, found))
        each(record)
    return record


def run_arm(case: Case, way: str, settings: Settings) -> dict[str, Any]:
    """What a worker found out.

    Raises:
        RunError: it failed, the message holds the end of what it said; or it printed no JSON.
    """
    command = [
        sys.executable, "-m", "dllmzoo.bench.worker", case.name, way, "--size", settings.size,
        "--device", settings.device, "--dtype", settings.dtype,
    ]  # fmt: skip
    environment = dict(os.environ)
    if settings.threads is not None:
        command += ["--threads", str(settings.threads)]
        environment["OMP_NUM_THREADS"] = str(settings.threads)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-LAST_LINES:])
        raise RunError(
            f"benchmark {case.name}, {way}: the worker ended with code {done.returncode}:\n{said}"
        )
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise RunError(
            f"benchmark {case.name}, {way}: the last line of the worker is no JSON: {error}"
        ) from error
