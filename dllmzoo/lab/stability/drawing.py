"""Curves of every seed: one thin line each, one colour an arm, a cross where a run was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dllmzoo.errors import UsageError
from dllmzoo.lab.figure import COLOURS, GREY, figure
from dllmzoo.lab.stability.arms import RIVALS
from dllmzoo.lab.stability.collapse import FLOOR
from dllmzoo.lab.stability.conditions import CONDITIONS


@dataclass(frozen=True)
class Panel:
    """One quantity over updates."""

    key: str
    title: str
    log: bool = False
    square: bool = False


SHORT = (
    Panel("eval/solved_rate", "solved rate, greedy"),
    Panel("grad_norm_max", "gradient norm", log=True),
    Panel("ratio_q99", "ratio, 99 %", log=True),
    Panel("ess_share", "effective sample size / G"),
)
"""Panels of a condition among others."""

LONG = (
    Panel("reward", "reward"),
    Panel("ratio_clipped", "S, mean clipped ratio", log=True),
    Panel("log_ratio_std", "variance of log-ratio", log=True, square=True),
    Panel("drift", "drift in a round"),
)
"""The other panels of a condition alone."""

STYLES = {
    "grpo": (COLOURS[1], "-"),
    "clip_only": (COLOURS[4], "--"),
    "sn_only": (COLOURS[5], "-."),
    "stable_drl": (COLOURS[0], "-"),
    "policy_gradient": (COLOURS[2], ":"),
}
"""Colour and dashes of an arm."""

MAIN = ("base", "clean", "token")
"""Conditions of the first figure of a study of many."""


def plot(result: dict[str, Any], path: Path) -> list[Path]:
    """Draw the curves of a study as SVG and PNG; returns the SVG files.

    One condition alone gets all its curves in `path`. Of several, `path` shows four curves of the
    main ones, and `path_CONDITION` all curves of each.

    Args:
        result: of `run`.
        path: of the figure, with or without an ending.

    Raises:
        UsageError: there are no runs, or matplotlib is missing.
    """
    runs = result["runs"]
    names = list(dict.fromkeys(run["condition"] for run in runs))
    if not names:
        raise UsageError("there are no runs to plot")
    stem = path.with_suffix("") if path.suffix in (".svg", ".png") else path
    if len(names) == 1:
        return [_draw(runs, names, (SHORT, LONG), stem)]
    main = [name for name in MAIN if name in names] or names[: len(MAIN)]
    return [
        _draw(runs, main, (SHORT,), stem),
        *(_draw(runs, [name], (SHORT, LONG), Path(f"{stem}_{name}")) for name in names),
    ]


def _draw(
    runs: Sequence[dict[str, Any]],
    names: Sequence[str],
    rows: Sequence[Sequence[Panel]],
    stem: Path,
) -> Path:
    """Some conditions below each other, each with some rows of panels."""
    with figure(stem, 3.0 * len(SHORT), 2.3 * len(rows) * len(names) + 0.5) as drawn:
        blocks = drawn.subfigures(len(names), 1, squeeze=False)[:, 0]
        for name, block in zip(names, blocks, strict=True):
            text = f"{name}: {CONDITIONS[name].title}"
            block.suptitle(text, x=0.01, ha="left", fontsize=9, fontweight="bold")
            grid = block.subplots(len(rows), len(SHORT), squeeze=False, sharex=True)
            here = [run for run in runs if run["condition"] == name]
            for panels, axes in zip(rows, grid, strict=True):
                for panel, axis in zip(panels, axes, strict=True):
                    _panel(axis, panel, here)
            for axis in grid[-1]:
                axis.set_xlabel("updates")
        _legend(drawn, [run for run in runs if run["condition"] in names])
    return Path(f"{stem}.svg")


def _panel(axis: Any, panel: Panel, runs: Sequence[dict[str, Any]]) -> None:
    axis.set_title(panel.title, fontsize=8)
    if panel.log:
        axis.set_yscale("log")
    for run in runs:
        points = _points(run["curves"], panel)
        if not points:
            continue
        colour, dash = STYLES[run["arm"]]
        axis.plot(*zip(*points, strict=True), color=colour, linestyle=dash, linewidth=0.8)
        if run["status"] == "stopped":
            axis.plot(*points[-1], color=colour, marker="x", markersize=5)
    starts = [run["figures"]["solved_first"] for run in runs]
    if panel.key.startswith("eval/") and starts and None not in starts:
        axis.axhline(FLOOR * sum(starts) / len(starts), color=GREY, linestyle=":", linewidth=1)
        axis.set_ylim(bottom=0)
    if panel.key == "ess_share":
        axis.set_ylim(0, 1.02)


def _points(rows: Sequence[dict[str, Any]], panel: Panel) -> list[tuple[float, float]]:
    found = [(row["update"], row[panel.key]) for row in rows if row.get(panel.key) is not None]
    found = [(update, value**2 if panel.square else value) for update, value in found]
    return [point for point in found if not panel.log or point[1] > 0]


def _legend(drawn: Any, runs: Sequence[dict[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    lines: list[Any] = []
    for arm in RIVALS:
        if any(run["arm"] == arm for run in runs):
            colour, dash = STYLES[arm]
            lines.append(Line2D([], [], color=colour, ls=dash, label=RIVALS[arm].title))  # type: ignore[arg-type]
    lines += [
        Line2D([], [], color="#7F7F7F", marker="x", ls="", label="stopped: not finite"),
        Line2D([], [], color=GREY, ls=":", label="half the solved rate of the start"),
    ]
    drawn.legend(handles=lines, loc="outside lower center", ncols=len(lines), fontsize=8)
