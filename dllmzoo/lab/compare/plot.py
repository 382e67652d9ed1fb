"""Learning curves of a comparison against each cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dllmzoo.lab.compare.result import mean_curves
from dllmzoo.lab.curves import COSTS
from dllmzoo.lab.figure import GREY, figure, look

MOST = 8
"""Lines that one panel can show; with more, each method gets a panel of its own."""
AXES = {
    "flops": "FLOPs, forward and backward", "samples": "samples", "updates": "optimiser updates",
    "seconds": "seconds of training",
}  # fmt: skip


def plot(result: Mapping[str, Any], path: Path) -> list[Path]:
    """Draw the curves as SVG and PNG; returns the SVG files.

    Up to 8 methods share four panels, one for each cost. With more, every method has a panel
    before the others in grey: `path` is against FLOPs, and `path_samples`, `path_updates` and
    `path_seconds` beside it.

    Args:
        result: of `run`.
        path: of the figure, with or without an ending.
    """
    methods = mean_curves(result)["methods"]
    stem = path.with_suffix("") if path.suffix in (".svg", ".png") else path
    if len(methods) <= MOST:
        _together(methods, result["metric"], stem)
        return [stem.with_name(f"{stem.name}.svg")]
    files = []
    for cost in COSTS:
        name = stem.name if cost == "flops" else f"{stem.name}_{cost}"
        _apart(methods, result["metric"], cost, stem.with_name(name))
        files.append(stem.with_name(f"{name}.svg"))
    return files


def _together(methods: Mapping[str, Sequence[Mapping[str, Any]]], metric: str, stem: Path) -> None:
    with figure(stem, 9, 6.5) as drawn:
        panels = drawn.subplots(2, 2, sharey=True).flat
        for cost, panel in zip(COSTS, panels, strict=True):
            for i, (label, points) in enumerate(methods.items()):
                _line(panel, points, cost, label, look(i))
            panel.set_xlabel(AXES[cost])
            panel.set_ylabel(metric.replace("_", " "))
        handles, names = drawn.axes[0].get_legend_handles_labels()
        drawn.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))


def _apart(
    methods: Mapping[str, Sequence[Mapping[str, Any]]], metric: str, cost: str, stem: Path
) -> None:
    columns = min(4, math.ceil(math.sqrt(len(methods))))
    rows = math.ceil(len(methods) / columns)
    with figure(stem, 2.6 * columns, 2.1 * rows) as drawn:
        panels = list(drawn.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        for i, (label, points) in enumerate(methods.items()):
            for other in methods.values():
                costs, means = [p[cost] for p in other], [p["mean"] for p in other]
                panels[i].plot(costs, means, color=GREY, linewidth=0.6, zorder=1)
            _line(panels[i], points, cost, label, {"color": look(0)["color"], "marker": "o"})
            panels[i].set_title(f"{i + 1}. {label}", fontsize=8)
        for panel in panels[len(methods) :]:
            panel.set_visible(False)
        drawn.supxlabel(AXES[cost], fontsize=9)
        drawn.supylabel(metric.replace("_", " "), fontsize=9)


def _line(
    panel: Any, points: Sequence[Mapping[str, Any]], cost: str, label: str, style: dict[str, Any]
) -> None:
    """A mean with its shaded 95 % interval, which stays in [0, 1] if the means do."""
    costs, means = [point[cost] for point in points], [point["mean"] for point in points]
    panel.plot(costs, means, label=label, zorder=3, **style)
    if all(point["low"] is not None for point in points):
        low, high = [point["low"] for point in points], [point["high"] for point in points]
        if min(means) >= 0 and max(means) <= 1:
            low, high = [max(value, 0.0) for value in low], [min(value, 1.0) for value in high]
        panel.fill_between(costs, low, high, color=style["color"], alpha=0.15, linewidth=0)
