"""Draws the pictures of docs/reading_metrics.md, from short runs that it makes if need be.

    python docs/metrics_pictures.py FOLDER

FOLDER holds the runs; a run that is there is only drawn. Five runs take some minutes each on a
core. The picture of noisy ratios is that of the stability lab, `dllmzoo lab stability --quick`.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import dllmzoo
from dllmzoo.lab.figure import COLOURS, GREY, figure

TARGET = Path(__file__).parent / "assets" / "metrics"
COMMON = (
    "train.rounds=60", "train.passes=4", "evaluate.every=5", "evaluate.examples=256",
    "evaluate.also_steps=[]", "evaluate.floor=null", "optimizer.schedule=constant",
)  # fmt: skip
"""Changes to `egspo_sa_sudoku` in every run; four passes, so that ratios move."""

RUNS = {
    "healthy": (),
    "cold": ("optimizer.lr=1e-6",),
    "warm": ("optimizer.lr=2e-3",),
    "hot": ("optimizer.lr=1e-2",),
    "dead": ("task.blanks=[11,12]", "task.rewards={solved: 1.0}", "sampler.temperature=0.1"),
}
LABELS = {
    "cold": "rate 1e-6", "healthy": "rate 2e-4", "warm": "rate 2e-3", "hot": "rate 1e-2",
}  # fmt: skip
"""How the picture of several runs calls them."""


@dataclass(frozen=True)
class Panel:
    """One chart: its title, the keys drawn in it, each with what a legend calls it."""

    title: str
    keys: tuple[tuple[str, str], ...]
    log: bool = False
    bottom: float | None = 0
    top: float | None = None


SOLVED = Panel("eval/solved_rate", (("eval/solved_rate", ""),))
REWARD = Panel("reward", (("reward", ""),))
CLOSE = Panel("reward", (("reward", ""),), bottom=None)
ENTROPY = Panel("entropy, nats", (("entropy", ""),))
DEAD = Panel("reward_zero_std_share", (("reward_zero_std_share", ""),), top=1.02)
CLIP = Panel("clip_fraction", (("clip_fraction", ""),))
RATIO = Panel("ratio_q99", (("ratio_q99", ""),), log=True)
NORM = Panel("grad_norm_max", (("grad_norm_max", ""),))
QUANTILES = Panel(
    "ratio: 1 %, median, 99 %", (("ratio_q01", ""), ("ratio_q50", ""), ("ratio_q99", "")), log=True
)
NORMS = Panel("grad_norm and grad_norm_max", (("grad_norm", "mean"), ("grad_norm_max", "largest")))
ESS = Panel("ess_share", (("ess_share", ""),), top=1.02)

FIGURES: dict[str, tuple[tuple[str, ...], tuple[Panel, ...]]] = {
    "healthy": (("healthy",), (CLOSE, SOLVED, ENTROPY, DEAD, QUANTILES, CLIP, NORMS, ESS)),
    "rates": (("healthy", "cold", "warm", "hot"), (REWARD, SOLVED, ENTROPY, DEAD, RATIO, CLIP)),
    "dead_groups": (("dead",), (DEAD, NORM, SOLVED, ENTROPY)),
}
"""File -> runs and charts."""


def made(folder: Path) -> None:
    """Make the runs that are not there."""
    for name, changes in RUNS.items():
        if not (folder / name / "final").is_dir():
            overrides = [*COMMON, *changes, f"output={folder / name}"]
            for _ in dllmzoo.train("egspo_sa_sudoku", overrides=overrides, overwrite=True):
                pass


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def draw(axis: Any, panel: Panel, runs: Sequence[tuple[str, list[dict[str, Any]]]]) -> None:
    """One chart; a colour for each run, or for each key that has a label where a run is alone."""
    alone = len(runs) == 1
    for r, (name, rows) in enumerate(runs):
        for k, (key, label) in enumerate(panel.keys):
            points = [(row["round"], row[key]) for row in rows if row.get(key) is not None]
            points = [point for point in points if point[1] > 0 or not panel.log]
            colour = COLOURS[k if alone and label else r]
            text = (label if alone else LABELS[name]) or None
            axis.plot(*zip(*points, strict=True), color=colour, label=text, linewidth=1.2)
    if panel.title.startswith("ratio"):
        axis.axhline(1, color=GREY, linestyle=":", linewidth=1)
    if panel.log:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=panel.bottom, top=panel.top)
    axis.set_title(panel.title)
    axis.set_xlabel("round")


def picture(name: str, folder: Path) -> None:
    """Draw one of `FIGURES` into the assets of the documentation."""
    wanted, panels = FIGURES[name]
    runs = [(run, rows_of(folder / run)) for run in wanted]
    columns = 4 if len(panels) % 4 == 0 else 3
    lines = len(panels) // columns
    with tempfile.TemporaryDirectory() as scratch:
        stem = Path(scratch, name)
        with figure(stem, 2.5 * columns, 2.2 * lines + (0.3 if len(runs) > 1 else 0)) as drawn:
            grid = drawn.subplots(lines, columns, squeeze=False).flatten()
            for axis, panel in zip(grid, panels, strict=True):
                draw(axis, panel, runs)
                if len(runs) == 1 and any(label for _, label in panel.keys):
                    axis.legend(fontsize=7)
            if len(runs) > 1:
                handles = grid[0].get_legend_handles_labels()
                drawn.legend(*handles, loc="outside lower center", ncols=len(runs))
        TARGET.mkdir(parents=True, exist_ok=True)
        copyfile(stem.with_suffix(".svg"), TARGET / f"{name}.svg")


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(words[0])
    made(folder)
    for name in FIGURES:
        picture(name, folder)
        print(TARGET / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
