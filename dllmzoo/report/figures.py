"""The charts of the report as figures for papers: what is drawn, on axes of matplotlib."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DASHES = ("-", "--", ":", "-.", (0, (1, 4)), (0, (9, 3)))
WIDTH, HEIGHT = 3.6, 2.6
"""Inches of a chart without its legend."""
LETTER, HANDLE, ROW = 0.055, 0.5, 0.17
"""Inches of a legend at 7 points: a letter, what stands before a label, a line of labels."""


@dataclass(frozen=True)
class Panel:
    """One chart.

    Args:
        name: of the file, without ending.
        title: of the axes.
        unit: of the values.
        log: whether the vertical axis is logarithmic.
        lines: `label run dash x y` and, where an interval is known, `low high`.
    """

    name: str
    title: str
    unit: str
    log: bool
    lines: tuple[Mapping[str, Any], ...]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches: the legend has room of its own below the axes."""
        if len(self.lines) < 2:
            return WIDTH, HEIGHT
        rows = -(-len(self.lines) // self._columns)
        return max(WIDTH, self._label), HEIGHT + ROW * (rows + 1)

    @property
    def _label(self) -> float:
        """Inches of the widest label with its handle."""
        return HANDLE + LETTER * max(len(line["label"]) for line in self.lines)

    @property
    def _columns(self) -> int:
        """Labels side by side."""
        return min(max(int(WIDTH / self._label), 1), len(self.lines))

    def draw(self, axes: Any, colours: Sequence[str]) -> None:
        """Draw on matplotlib axes; the r-th run has the r-th colour, one run a colour a line."""
        several = len({line["run"] for line in self.lines}) > 1
        for i, line in enumerate(self.lines):
            colour = colours[(line["run"] if several else i) % len(colours)]
            few = len(line["x"]) <= 24
            axes.plot(
                line["x"], line["y"], label=line["label"], color=colour,
                linestyle=DASHES[line["dash"] % len(DASHES)] if several else "-",
                marker="o" if few else None,
            )  # fmt: skip
            if line.get("low"):
                axes.fill_between(
                    line["x"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0
                )
        if self.log:
            axes.set_yscale("log")
        axes.set_title(self.title)
        axes.set_xlabel("round")
        axes.set_ylabel(self.unit)
        if len(self.lines) > 1:  # beside the axes, or a long one would leave them no room
            axes.figure.legend(
                loc="outside lower center", ncols=self._columns, fontsize=7, handlelength=3
            )


def panels(data: Mapping[str, Any]) -> Iterator[Panel]:
    """Every chart that moves, of the data of `collect`; names are unlike."""
    taken: set[str] = set()
    for group in data["charts"]:
        for chart in group["charts"]:
            lines = tuple(_lines(chart, data["runs"]))
            if len({y for line in lines for y in line["y"]}) < 2:
                continue
            name = re.sub(r"[^a-z0-9]+", "_", chart["title"].lower()).strip("_")
            while name in taken:
                name += "_"
            taken.add(name)
            yield Panel(name, chart["title"], chart["unit"], chart["log"], lines)


def _lines(chart: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for r, run in enumerate(runs):
        for k, line in enumerate(chart["lines"]):
            columns = run["columns"]
            values = columns.get(line["key"], ())
            kept = [
                i
                for i, value in enumerate(values)
                if value is not None and math.isfinite(value) and (value > 0 or not chart["log"])
            ]
            if not kept:
                continue
            parts = [run["name"]] if len(runs) > 1 else []
            parts += [line["label"]] if len(chart["lines"]) > 1 or not parts else []
            made = {
                "label": " ".join(parts), "run": r, "dash": k,
                "x": [columns["round"][i] for i in kept], "y": [values[i] for i in kept],
            }  # fmt: skip
            ends = {end: columns.get(line.get(end)) for end in ("low", "high")}
            if all(ends.values()) and all(e[i] is not None for e in ends.values() for i in kept):
                made |= {name: [column[i] for i in kept] for name, column in ends.items()}
            yield made
