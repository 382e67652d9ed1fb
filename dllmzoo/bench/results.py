"""Medians, ratios and their spread, from what the workers of a case found. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from dllmzoo.bench.cases import Case

Arms = Mapping[str, Sequence[Mapping[str, Any]]]
"""Way -> what each of its processes found, in the order in which they ran."""


def summary(case: Case, arms: Arms) -> dict[str, Any]:
    """The record of a case, as JSON has it.

    Ratios are baseline over way, above 1 = better than the baseline: of medians, with the least and
    the largest ratio of processes that ran one after the other.
    """
    base = arms[case.baseline]
    ways = {way: _way(found) for way, found in arms.items()}
    for way, found in arms.items():
        if way == case.baseline:
            continue
        ways[way]["faster"] = ratio(base, found, "seconds")
        ways[way]["smaller"] = ratio(base, found, "peak_bytes")
    record = {
        "case": case.name, "summary": case.summary, "baseline": case.baseline,
        "scaled": case.scaled, "ways": ways,
    }  # fmt: skip
    if case.growth:
        record["growth"] = growth(arms)
    digests = [found[0]["facts"].get("digests") for found in arms.values()]
    if all(digests):
        record["same_tokens"] = all(each == digests[0] for each in digests)
    return record


def _way(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    seconds = median(each["seconds"] for each in found)
    flops, tokens = found[0]["flops"], found[0]["tokens"]
    peak = _median(found, "matmul_peak")
    facts = {name: value for name, value in found[0]["facts"].items() if name != "digests"}
    if "overhead" in facts:
        facts["overhead_share"] = median(
            each["facts"]["overhead"] / each["seconds"] for each in found
        )
    return {
        "dtype": found[0]["dtype"],
        "seconds": seconds,
        "all_seconds": [each["seconds"] for each in found],
        "parts": {
            name: median(each["parts"][name] for each in found) for name in found[0]["parts"]
        },
        "peak_bytes": _median(found, "peak_bytes"),
        "flops": flops or None,
        "flops_per_second": flops / seconds if flops else None,
        "matmul_peak": peak,
        "share_of_peak": flops / seconds / peak if flops and peak else None,
        "tokens_per_second": tokens / seconds if tokens else None,
        "facts": facts,
    }


def _median(found: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [each[name] for each in found if each[name] is not None]
    return median(values) if len(values) == len(found) else None


def ratio(
    base: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]], name: str
) -> dict[str, float] | None:
    """Median of the baseline over that of a way, and the spread over turns; None = not known."""
    above, below = _median(base, name), _median(found, name)
    if above is None or not below:
        return None
    each = [b[name] / f[name] for b, f in zip(base, found, strict=True) if f[name]]
    return {"median": above / below, "low": min(each), "high": max(each)}


def growth(arms: Arms) -> dict[str, float | None]:
    """Exponent of the power law of time, and the peak of memory of the last over the first."""
    points = [
        (float(way.partition("=")[2]), median(each["seconds"] for each in found))
        for way, found in arms.items()
    ]
    peaks = [_median(found, "peak_bytes") for found in arms.values()]
    known = [peak for peak in peaks if peak]
    return {
        "exponent": exponent(points),
        "memory": known[-1] / known[0] if len(known) == len(peaks) else None,
    }


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Slope of the least-squares line through (log x, log y)."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread
