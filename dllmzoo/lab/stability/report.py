"""A stability study in tables and words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dllmzoo.lab.stability.arms import RIVALS
from dllmzoo.lab.stability.conditions import CONDITIONS
from dllmzoo.lab.sweep import Table

Show = Callable[[dict[str, Any]], str]


def tables(result: dict[str, Any]) -> list[Table]:
    """Who collapsed, what the noise did, what the conditions are, and the toys if they ran."""
    return list(named_tables(result).values())


def named_tables(result: dict[str, Any]) -> dict[str, Table]:
    """The tables by a word for each, that of the collapses first."""
    cells = result["cells"]
    names = [name for name in dict.fromkeys(cell["condition"] for cell in cells)]
    titles = [(name, CONDITIONS[name].title) for name in names]
    found: dict[str, Table] = {
        "collapses": (
            tuple(COLLAPSES),
            _rows(COLLAPSES, cells),
            "Noisy likelihood ratios on the tiny Sudoku model: who collapsed",
        ),
        "noise": (
            tuple(NOISE),
            _rows(NOISE, cells),
            "Noisy likelihood ratios: gradients, ratios and drift",
        ),
        "conditions": (("condition", "what"), titles, "Conditions of the stability lab"),
    }
    if result["toys"]:
        found["updates"] = _updates(result["toys"]["updates"])
        found["bandits"] = _bandits(result["toys"]["bandits"])
    return found


def verdicts(result: dict[str, Any]) -> tuple[str, ...]:
    """What the numbers say, in sentences."""
    return tuple(result["verdicts"])


def _updates(found: Sequence[dict[str, Any]]) -> Table:
    rows = [
        (
            number(each["noise"]), number(each["shared_noise"]), RIVALS[each["arm"]].title,
            number(each["mean"]), number(each["q999"]), number(each["largest"]),
            number(each["scale_std"]),
        )
        for each in found
    ]  # fmt: skip
    headers = (
        "own noise", "shared noise", "arm", "norm, mean", "99.9 %", "largest", "std of log S"
    )  # fmt: skip
    return headers, rows, "Toy: norm of one update, of answers whose own gradients have norm 1"


def _bandits(found: Sequence[dict[str, Any]]) -> Table:
    rows = [
        (
            each["bandit"], RIVALS[each["arm"]].title,
            f"{each['reward']:.3f} ({each['reward_low']:.3f} to {each['reward_high']:.3f})",
            number(each["largest"]), number(each["jump"]),
        )
        for each in found
    ]  # fmt: skip
    headers = ("bandit", "arm", "reward at the end", "largest norm", "jump of log norm")
    return headers, rows, "Toy: a softmax bandit trained on noisy ratios"


def _rows(columns: dict[str, Show], cells: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [tuple(show(cell) for show in columns.values()) for cell in cells]


def number(value: float | None, digits: int = 3) -> str:
    """A number in a few characters: `0.205`, `37`, `1.4e+19`; `-` if there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.1e}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"


def _figure(*names: str, between: str = " / ") -> Show:
    return lambda cell: between.join(number(cell["figures"].get(name)) for name in names)


def _rate(name: str) -> Show:
    """A mean over seeds with its interval."""

    def show(cell: dict[str, Any]) -> str:
        found = cell["figures"]
        if found.get(name) is None:
            return "-"
        low, high = found.get(f"{name}_low"), found.get(f"{name}_high")
        text = f"{found[name]:.3f}"
        return text if low is None else f"{text} ({low:.3f} to {high:.3f})"

    return show


def _title(cell: dict[str, Any]) -> str:
    return RIVALS[cell["arm"]].title


def _signs(cell: dict[str, Any]) -> str:
    return ", ".join(f"{sign} {times}" for sign, times in cell["signs"].items()) or "-"


def _collapsed(cell: dict[str, Any]) -> str:
    return f"{cell['collapsed']} of {len(cell['seeds'])}"


def _share(cell: dict[str, Any]) -> str:
    return f"{100 * cell['share_low']:.0f} to {100 * cell['share_high']:.0f}"


COLLAPSES: dict[str, Show] = {
    "condition": lambda cell: cell["condition"],
    "arm": _title,
    "collapsed": _collapsed,
    "95 %": _share,
    "after updates": lambda cell: number(cell["updates"]),
    "signs, seeds": _signs,
    "solved, start": _figure("solved_first"),
    "solved, late": _rate("solved_late"),
    "solved, lowest": _figure("solved_low"),
    "reward, first": _rate("reward_first"),
    "reward, last": _rate("reward_last"),
}
"""Column -> text of a cell. `late`: mean of the evaluations in the second half of the updates."""

NOISE: dict[str, Show] = {
    "condition": lambda cell: cell["condition"],
    "arm": _title,
    "gradient norm 50 %": _figure("grad_q50"),
    "90 %": _figure("grad_q90"),
    "largest": _figure("grad_max"),
    "ratio 1 / 50 / 99 %": _figure("ratio_q01", "ratio_q50", "ratio_q99"),
    "largest ratio": _figure("ratio_max"),
    "variance of log-ratio, first / last": _figure("log_ratio_var_first", "log_ratio_var_last"),
    "ESS/G": _figure("ess"),
    "S, lowest / mean / highest": _figure("clipped_low", "clipped", "clipped_high"),
    "clipped low / high": _figure("clip_low_fraction", "clip_high_fraction"),
    "drift a round": _figure("drift"),
    "KL": _figure("kl"),
}
"""Column -> text of a cell. Medians over seeds; of largest and lowest values the extreme."""
