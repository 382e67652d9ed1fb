"""Tables of a record: for a terminal, for Markdown, and into a page between markers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dllmzoo.bench.sizes import SIZES
from dllmzoo.errors import UsageError

HEADS = (
    "benchmark", "way", "seconds", "times faster", "tokens/s", "TFLOP", "of matmul peak",
    "peak memory", "times less",
)  # fmt: skip
GROWTH_HEADS = ("growth", "seconds", "exponent of time", "peak memory", "last over first")
START, STOP = "<!-- bench:{} -->", "<!-- end of bench:{} -->"

Record = Mapping[str, Any]


def rows(record: Record) -> list[tuple[str, ...]]:
    """A line for each way of each case that compares ways."""
    return [
        (
            "" if index else case["case"], way + _dtype(record, found), number(found["seconds"]),
            spread(found.get("faster")), number(found["tokens_per_second"]),
            number(None if found["flops"] is None else found["flops"] / 1e12),
            percent(found["share_of_peak"]), mebibytes(found["peak_bytes"]),
            spread(found.get("smaller")),
        )
        for case in record["cases"] if "growth" not in case
        for index, (way, found) in enumerate(case["ways"].items())
    ]  # fmt: skip


def growth_rows(record: Record) -> list[tuple[str, ...]]:
    """A line for each case that fits a power law."""
    return [
        (
            f"{case['case']}: {', '.join(case['ways'])}",
            ", ".join(number(found["seconds"]) for found in case["ways"].values()),
            f"{case['growth']['exponent']:.2f}",
            ", ".join(mebibytes(found["peak_bytes"]) for found in case["ways"].values()),
            number(case["growth"]["memory"]),
        )
        for case in record["cases"] if "growth" in case
    ]  # fmt: skip


def notes(record: Record) -> Iterator[str]:
    """What the numbers are of, in sentences."""
    for case in record["cases"]:
        if case["scaled"]:
            yield f"{case['case']}: {case['scaled']}."
        if "same_tokens" in case:
            same = "the same" if case["same_tokens"] else "NOT the same"
            yield f"{case['case']}: both ways commit {same} tokens in the measured steps."
        for way, found in case["ways"].items():
            if len(found["parts"]) > 1:
                each = ", ".join(f"{n} {number(s)}" for n, s in found["parts"].items())
                yield f"{case['case']}, {way}, seconds: {each}."
            facts = found["facts"]
            if "measured states" in facts:
                yield f"{case['case']}, {way}: {facts['measured states']} states were measured."
            if "overhead_share" in facts:
                yield (
                    f"{case['case']}, {way}: {percent(facts['overhead_share'])} of the round is "
                    f"spent outside of rollout, forwards, backwards and the optimiser."
                )


def title(record: Record) -> str:
    """Size, device and machine, as the operating system names it."""
    settings, machine = record["settings"], record["machine"]
    where = machine.get("gpu") if settings["device"] == "cuda" else machine["cpu"]
    memory = "" if machine["memory_gib"] is None else f", {machine['memory_gib']} GiB"
    return (
        f"{SIZES[settings['size']].title}; {settings['dtype']}; {where}; {machine['cores']} "
        f"cores{memory}, {machine.get('threads')} threads; torch {machine['torch']}; medians of "
        f"{settings['repeats']}; load at start {number(record['load_at_start'])}"
    )


def markdown(record: Record) -> str:
    """All tables and notes."""
    parts = [f"Measured: {title(record)}."]
    for heads, lines in ((HEADS, rows(record)), (GROWTH_HEADS, growth_rows(record))):
        if lines:
            table = (heads, ("---",) * len(heads), *lines)
            parts.append("\n".join("| " + " | ".join(line) + " |" for line in table))
    if said := list(notes(record)):
        parts.append("\n".join(f"- {line}" for line in said))
    return "\n\n".join(parts)


def write(record: Record, page: Path) -> None:
    """Put the tables into a page, between the markers of the record's size and device.

    Raises:
        UsageError: the page or its markers are not there.
    """
    name = f"{record['settings']['size']}-{record['settings']['device']}"
    start, stop = START.format(name), STOP.format(name)
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--write {page}: {error.strerror}") from error
    head, found, rest = text.partition(start)
    _, ended, tail = rest.partition(stop)
    if not found or not ended:
        raise UsageError(f"--write {page}: there are no lines {start} and {stop}; add them")
    page.write_text(f"{head}{start}\n\n{markdown(record)}\n\n{stop}{tail}", encoding="utf-8")


def number(value: float | None) -> str:
    """Three digits, or a dash for what is not known."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(value: float | None) -> str:
    """A share."""
    return "-" if value is None else f"{100 * value:.3g} %"


def mebibytes(value: float | None) -> str:
    """Bytes."""
    return "-" if value is None else f"{value / 2**20:,.0f} MiB"


def spread(value: Mapping[str, float] | None) -> str:
    """A ratio with the least and the largest of the turns; a dash for the baseline."""
    if value is None:
        return "-"
    low, high = (number(value[name]) for name in ("low", "high"))
    return f"{number(value['median'])} ({low} to {high})"


def _dtype(record: Record, found: Mapping[str, Any]) -> str:
    return "" if found["dtype"] == record["settings"]["dtype"] else f" ({found['dtype']})"
