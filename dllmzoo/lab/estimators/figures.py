"""The results as figures: error against forwards, and selection error against kept steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dllmzoo.lab.estimators.results import Point, Result
from dllmzoo.lab.estimators.selection import BEST
from dllmzoo.lab.figure import COLOURS, figure, look

Read = Callable[[Point], float | None]

PANELS: tuple[tuple[str, Read], ...] = (
    ("log-likelihood: RMSE, nats", lambda p: p.values[0].loglikelihood.rmse if p.values else None),
    ("ratio, shared masks: RMSE", lambda p: p.ratios[0].ratio.rmse if p.ratios else None),
    ("gradient of a batch: error / exact", lambda p: p.gradient.error if p.gradient else None),
    ("gradient of a batch: cosine with exact", lambda p: p.gradient.cosine if p.gradient else None),
)
LEAST = 1e-4
"""Errors below this are rounding, and drawn here."""


def plot(result: Result, path: Path | str) -> list[Path]:
    """Draw what the result has numbers for, as SVG and PNG; returns the SVG files.

    Args:
        result: of `run`.
        path: a folder, for `estimators` and `selection` in it; or a file ending in .svg or .png,
            for it and `NAME_selection` beside it.

    Raises:
        UsageError: matplotlib is not installed.
    """
    path = Path(path)
    first, second = path / "estimators", path / "selection"
    if path.suffix in (".svg", ".png"):
        first = path.with_suffix("")
        second = first.with_name(f"{first.name}_selection")
    written = []
    if any(read(point) is not None for point in result.points for _, read in PANELS):
        _estimators(result, first)
        written.append(first)
    if result.selection:
        _selection(result, second)
        written.append(second)
    return [stem.with_name(f"{stem.name}.svg") for stem in written]


def _estimators(result: Result, stem: Path) -> None:
    """Root mean square errors against forwards, one line a likelihood."""
    shown = [
        (title, read) for title, read in PANELS if any(read(p) is not None for p in result.points)
    ]
    lines: dict[str, list[Point]] = {}
    for point in result.points:
        lines.setdefault(family(point), []).append(point)
    columns = min(len(shown), 2)
    height = 3.2 * math.ceil(len(shown) / columns) + 0.4
    with figure(stem, 4.2 * columns + 2.6, height) as drawn:
        axes = drawn.subplots(math.ceil(len(shown) / columns), columns, squeeze=False).flat
        for axis, (title, read) in zip(axes, shown, strict=False):
            for i, (name, points) in enumerate(lines.items()):
                pairs = [(p.forwards, max(y, LEAST)) for p in points if (y := read(p)) is not None]
                axis.plot([x for x, _ in pairs], [y for _, y in pairs], label=name, **_line(i))
            axis.set(xscale="log", xlabel="forwards per sample", title=title)
            if "cosine" not in title:
                axis.set_yscale("log")
                _plain_numbers(axis.yaxis)
            _powers_of_two(axis, [p.forwards for p in result.points])
            if "gradient" in title and result.exact_score is not None:
                best = result.exact_score
                _floor(axis, best.cosine if "cosine" in title else best.error)
        for axis in list(axes)[len(shown) :]:
            axis.set_visible(False)
        drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
        drawn.suptitle(result.title, fontsize=9)


def _floor(axis: Any, value: float) -> None:
    """What an estimator would reach that knew the exact log-likelihood."""
    axis.axhline(value, color="0.5", linewidth=1, linestyle="-.")
    axis.annotate(
        "exact log-likelihood", (0.02, value), fontsize=7, color="0.35",
        xycoords=("axes fraction", "data"), verticalalignment="bottom",
    )  # fmt: skip


def family(point: Point) -> str:
    """What a line of the figure stands for: the estimator without its whole numbers."""
    head, _, selector = point.label.partition("@")
    options = [
        piece
        for piece in head.partition(":")[2].split(",")
        if piece and not piece.partition("=")[2].isdigit()
    ]
    name = head.partition(":")[0] + (f" ({', '.join(options)})" if options else "")
    return f"{name} @ {selector.partition(':')[0]}" if selector else name


def _line(index: int) -> dict[str, Any]:
    """Colour, marker and, once all colours are used, another dash."""
    return {**look(index), "linestyle": ("-", "--", ":")[index // len(COLOURS) % 3]}


def _powers_of_two(axis: Any, forwards: list[float]) -> None:
    """Ticks at 1, 2, 4, ... forwards, as plain numbers."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    powers = [2.0**i for i in range(-1, 16) if 2.0 ** (i - 1) < max(forwards)]
    axis.xaxis.set_major_locator(FixedLocator(powers))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_locator(NullLocator())


def _plain_numbers(axis: Any) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, as plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _selection(result: Result, stem: Path) -> None:
    """Selection error and bound against kept steps, and the direction of the kept part."""
    spread = any(each.batch_cosine is not None for each in result.selection)
    with figure(stem, 3.6 * (2 + spread) + 2.4, 4.0) as drawn:
        panels = drawn.subplots(1, 2 + spread)
        for i, name in enumerate(dict.fromkeys(each.selector for each in result.selection)):
            rows = [each for each in result.selection if each.selector == name]
            style = _line(i) | ({"color": "0.3"} if name == BEST else {})
            told = [e for e in rows if e.error > max(e.resolution, LEAST)]
            panels[0].plot([e.kept for e in told], [e.error for e in told], label=name, **style)
            bounded = [e for e in rows if e.bound]
            panels[0].plot(
                [e.kept for e in bounded], [e.bound for e in bounded], color=style["color"],
                linestyle=":", linewidth=1, alpha=0.6,
            )  # fmt: skip
            panels[1].plot([e.kept for e in rows], [e.cosine for e in rows], label=name, **style)
            if spread:
                batch = [(e.kept, e.batch_cosine) for e in rows if e.batch_cosine is not None]
                panels[2].plot([x for x, _ in batch], [y for _, y in batch], label=name, **style)
        panels[0].set(yscale="log", title="error / whole (dotted: entropy bound)")
        panels[1].set(title="expected term: cosine with whole")
        if spread:
            panels[2].set(title=f"{result.options.group} answers: cosine with whole")
        _plain_numbers(panels[0].yaxis)
        for axis in panels:
            axis.set(xlabel="steps kept of a trajectory", xticks=range(1, result.slots + 1))
        handles = panels[1].get_legend_handles_labels()
        drawn.legend(*handles, loc="outside right center", fontsize=8)
        drawn.suptitle(result.title, fontsize=9)
