"""Figures that read on paper and to colour-blind eyes; SVG for pages, PNG for slides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dllmzoo.errors import UsageError

COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F",
)  # fmt: skip
"""Told apart by colour-blind readers (Okabe and Ito, 2008); grey in place of yellow."""
MARKERS = "osD^vPX*"
GREY = "#BBBBBB"
STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.alpha": 0.3, "grid.linewidth": 0.5, "svg.fonttype": "none", "svg.hashsalt": "dllmzoo",
    "legend.frameon": False, "lines.linewidth": 1.5, "lines.markersize": 3.5,
}  # fmt: skip


def available() -> bool:
    """Whether figures can be drawn here."""
    return find_spec("matplotlib") is not None


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Any]:
    """A figure to draw on, saved as `path` with .svg and .png when the block ends.

    Args:
        path: with or without one of the two endings.
        width: in inches.
        height: in inches.

    Raises:
        UsageError: matplotlib is not installed.
    """
    if not available():
        raise UsageError("figures need matplotlib: pip install matplotlib")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        drawn = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        yield drawn
        stem = path.with_suffix("") if path.suffix in (".svg", ".png") else path
        stem.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(f"{stem}.svg", metadata={"Date": None})
        drawn.savefig(f"{stem}.png", dpi=150)


def look(index: int) -> dict[str, Any]:
    """Colour and marker of the index-th line."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[(index + index // len(COLOURS)) % len(MARKERS)],
    }
