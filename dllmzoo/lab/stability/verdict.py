"""From counts of collapsed seeds to plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dllmzoo.lab.stability.arms import CLAIMED, RIVALS
from dllmzoo.lab.statistics import Mean, mean_interval, verdict

NEEDED = 0.8
"""Share of the seeds on which a statement must hold to count as reproduced: 4 of 5."""

HALVES = ("clip_only", "sn_only")
"""Of them the claim says that they are not enough, which learning less would show in part."""

CLAIM = "GRPO collapses, StableDRL does not, and each half of it alone is not enough"

JUDGED = ("base",)
"""Where the claim is judged, if it was run."""

FEWEST = 4
"""Seeds below which a statement that holds on all of them is still only an indication."""


def judge(runs: Sequence[dict[str, Any]], cells: Sequence[dict[str, Any]]) -> list[str]:
    """Sentences: the claim, part by part, where it is judged, then every other condition.

    Args:
        runs: entries of single runs.
        cells: entries over seeds.
    """
    names = list(dict.fromkeys(cell["condition"] for cell in cells))
    if not names:
        return ["nothing was run, so nothing is shown"]
    judged = [name for name in JUDGED if name in names] or names[:1]
    found = []
    for name in judged:
        here = {cell["arm"]: cell for cell in cells if cell["condition"] == name}
        found.append(_whole(here, name, runs))
        found += [_part(arm, here[arm], runs) for arm in here]
    return found + [_elsewhere(name, cells) for name in names if name not in judged]


def holds(arm: str, cell: dict[str, Any]) -> bool | None:
    """Whether a cell shows what the claim says of its arm; None if it cannot say.

    Of `stable_drl` the claim says that it does not collapse, of the other three that they do.
    """
    seeds, collapsed = len(cell["seeds"]), cell["collapsed"]
    if not seeds or arm not in CLAIMED:
        return None
    right = seeds - collapsed if arm == "stable_drl" else collapsed
    return right >= math.ceil(NEEDED * seeds - 1e-9)


def _whole(here: dict[str, dict[str, Any]], condition: str, runs: Sequence[dict[str, Any]]) -> str:
    found = {arm: holds(arm, here[arm]) for arm in CLAIMED if arm in here}
    behind = [arm for arm in HALVES if found.get(arm) is False and _is_behind(arm, condition, runs)]
    wanting = [arm for arm, held in found.items() if held is False and arm not in behind]
    shown = [arm for arm, held in found.items() if held]
    missing = [arm for arm in CLAIMED if found.get(arm) is None]
    parts = [f"reproduced for {_and(shown)}"] if shown else []
    if behind:
        verb = "does not collapse but learns" if len(behind) == 1 else "do not collapse but learn"
        parts.append(f"in part for {_and(behind)}, which {verb} less")
    if wanting:
        parts.append(f"not shown for {_and(wanting)}")
    if missing:
        parts.append(f"{_and(missing)} not run")
    text = "reproduced in every part" if shown == list(CLAIMED) else "; ".join(parts)
    few = min((len(here[arm]["seeds"]) for arm in found), default=0)
    text += f" ({few} seed{'s' * (few != 1)}: an indication only)" if few < FEWEST else ""
    return f"{condition}: the claim that {CLAIM}: {text}"


def _part(arm: str, cell: dict[str, Any], runs: Sequence[dict[str, Any]]) -> str:
    held = holds(arm, cell)
    text = f"{cell['condition']}: {RIVALS[arm].title} {_counted(cell)}"
    if held is not None:
        expected = "no collapse" if arm == "stable_drl" else "collapse"
        text += f"; claimed: {expected}: {'reproduced' if held else 'not shown'}"
    gap = _gap(arm, cell["condition"], runs)
    return text if gap is None else f"{text}; {gap}"


def _elsewhere(condition: str, cells: Sequence[dict[str, Any]]) -> str:
    here = [cell for cell in cells if cell["condition"] == condition]
    parts = [f"{RIVALS[cell['arm']].title} {_counted(cell, brief=True)}" for cell in here]
    return f"{condition}: " + "; ".join(parts)


def _counted(cell: dict[str, Any], *, brief: bool = False) -> str:
    """`collapsed on 5 of 5 seeds (48 to 100 %), after 12 updates, gradient 5`."""
    seeds = len(cell["seeds"])
    if not seeds:
        return "was not run to an end on any seed"
    text = f"collapsed on {cell['collapsed']} of {seeds} seeds"
    if not brief:
        text += (
            f" (95 % interval {100 * cell['share_low']:.0f} to {100 * cell['share_high']:.0f} %)"
        )
    if cell["collapsed"]:
        signs = ", ".join(f"{sign} {number}" for sign, number in cell["signs"].items())
        text += f", in the median after {cell['updates']:.0f} updates, signs: {signs}"
    return text


def _gap(arm: str, condition: str, runs: Sequence[dict[str, Any]]) -> str | None:
    """The late solved rate against that of StableDRL, seed by seed."""
    difference = late_difference(arm, "stable_drl", condition, runs)
    if arm == "stable_drl" or difference is None or difference.low is None:
        return None
    said = {"lower": "behind", "higher": "ahead of", "not told apart": "not told apart from"}
    return (
        f"late solved rate {said[verdict(difference)]} StableDRL's "
        f"({100 * difference.value:+.1f} points, {100 * difference.low:+.1f} to "
        f"{100 * (difference.high or 0.0):+.1f})"
    )


def _is_behind(arm: str, condition: str, runs: Sequence[dict[str, Any]]) -> bool:
    difference = late_difference(arm, "stable_drl", condition, runs)
    return difference is not None and verdict(difference) == "lower"


def late_difference(
    arm: str, other: str, condition: str, runs: Sequence[dict[str, Any]]
) -> Mean | None:
    """Mean over shared seeds of the difference in late solved rate; None if there are none.

    Runs that a health check stopped keep the solved rate that they had.
    """
    late: dict[str, dict[int, float]] = {arm: {}, other: {}}
    for run in runs:
        if run["condition"] == condition and run["arm"] in late and run["status"] != "failed":
            figures = run["figures"]
            value = figures["solved_late"]
            value = figures["solved_last"] if value is None else value
            if value is not None:
                late[run["arm"]][run["seed"]] = value
    shared = [seed for seed in late[arm] if seed in late[other]]
    if not shared:
        return None
    return mean_interval([late[arm][seed] - late[other][seed] for seed in shared])


def _and(arms: Sequence[str]) -> str:
    words = [RIVALS[arm].title for arm in arms]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
