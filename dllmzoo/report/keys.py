"""Which metrics are drawn together: every key of docs/metrics.md has its chart."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Chart:
    """One chart, for all runs.

    Args:
        title: of the chart; NAME in it stands for what the patterns found.
        keys: of metrics.jsonl, drawn as lines of one chart. A key with NAME gives a chart for
            each name; N and PART give a line each.
        unit: of the values.
        log: whether the vertical axis starts out logarithmic.
        meaning: one line under the title.
    """

    title: str
    keys: tuple[str, ...]
    unit: str
    log: bool = False
    meaning: str = ""


@dataclass(frozen=True)
class Group:
    """Charts under one heading; `shown` tells whether it starts out open."""

    title: str
    charts: tuple[Chart, ...]
    shown: bool = True


GROUPS = (
    Group("Evaluation", (
        Chart("eval NAME", ("eval/NAME",), "", meaning="held-out examples, greedy; 95 % interval"),
        Chart("eval NAME, other steps", ("eval/stepsN/NAME",), "",
              meaning="the same with other numbers of denoising steps"),
    )),
    Group("Reward and credit", (
        Chart("reward", ("reward", "preview_reward"), "reward",
              meaning="of the sampled answers, and of the one-shot guesses"),
        Chart("reward NAME", ("reward/NAME",), "reward", meaning="one component, unweighted"),
        Chart("rollout NAME", ("rollout/NAME",), "", meaning="of the round's sampled answers"),
        Chart("dead groups", ("reward_zero_std_share",), "share",
              meaning="groups whose rewards are all equal teach nothing"),
        Chart("reward spread", ("reward_std",), "reward"),
        Chart("size of advantages", ("advantage_abs",), "reward"),
    )),
    Group("Update", (
        Chart("gradient norm", ("grad_norm", "grad_norm_max"), "", log=True,
              meaning="before clipping; mean and largest of the round"),
        Chart("ratio quantiles", ("ratio_q50", "ratio_q01", "ratio_q99", "ratio_max", "ratio"),
              "", log=True, meaning="new probability over old, over the round's units"),
        Chart("clip fraction", ("clip_fraction", "clip_low_fraction", "clip_high_fraction"),
              "share", meaning="units that the clip holds back"),
        Chart("KL to the reference", ("kl",), "nats"),
        Chart("effective sample size", ("ess_share",), "share",
              meaning="of the ratios in use; 1 = all units count alike"),
        Chart("log-ratio", ("log_ratio", "log_ratio_std"), "nats"),
        Chart("clipped ratio and weight", ("ratio_clipped", "weight"), ""),
        Chart("loss", ("loss",), ""),
        Chart("drift", ("drift",), "", meaning="distance that the round moved the weights"),
        Chart("standard error of log-probs", ("estimator_std",), "nats"),
        Chart("DPO margin", ("margin",), ""),
        Chart("DPO accuracy", ("accuracy",), "share"),
        Chart("imitation", ("imitation",), "nats"),
        Chart("hidden tokens", ("masked_share",), "share"),
        Chart("demonstrations left out", ("dropped",), "count"),
        Chart("learning rate", ("lr",), ""),
    )),
    Group("Denoising", (
        Chart("entropy", ("entropy",), "nats", meaning="of a slot when it was committed"),
        Chart("confidence", ("confidence",), "probability"),
        Chart("sampling gap", ("sampling_gap",), "nats",
              meaning="log-probs as they were sampled against the exact ones"),
        Chart("mean chosen step", ("selected_step",), "step"),
        Chart("answer length", ("answer_length",), "tokens"),
        Chart("tokens per forward", ("tokens_per_forward",), "tokens"),
    )),
    Group("Answers without a value", (
        Chart("abstained: NAME", ("reward_abstained/NAME", "preview_abstained/NAME"), "count"),
        Chart("errors: NAME", ("reward_errors/NAME", "preview_errors/NAME"), "count"),
        Chart("timeouts: NAME", ("reward_timeouts/NAME", "preview_timeouts/NAME"), "count"),
    ), shown=False),
    Group("Cost", (
        Chart("time of a round", ("time/PART",), "seconds"),
        Chart("FLOPs of a round", ("flops",), "FLOP"),
        Chart("FLOPs a second", ("flops_per_second",), "FLOP/s"),
        Chart("peak memory", ("memory_peak",), "bytes"),
        Chart("time so far", ("time/elapsed",), "seconds"),
        Chart("updates", ("update",), "count"),
    ), shown=False),
)  # fmt: skip

OTHER = "Further keys"
"""Where keys go that no chart names: those of a loss of the user's own."""

_ENDS = re.compile(r"_(low|high)$")
_WILD = {"NAME": r"(?P<name>.+)", "N": r"(?P<line>\d+)", "PART": r"(?P<line>.+)"}


def charts(keys: Iterable[str]) -> list[dict[str, Any]]:
    """The groups with the charts that these keys fill, as the page reads them.

    A line is `key label` and, where an interval is known, `low high`, the keys of its ends.
    """
    every = [key for key in dict.fromkeys(keys) if key != "round"]
    left = dict.fromkeys(every)
    for key in every:
        if _ENDS.search(key) and _ENDS.sub("", key) in left:
            left.pop(key)
    groups = []
    for group in GROUPS:
        found = [made for chart in group.charts for made in _filled(chart, left, every)]
        if found:
            groups.append({"title": group.title, "shown": group.shown, "charts": found})
    if left:
        others = [_entry(Chart(key, (key,), ""), key, [_line(key, "", every)]) for key in left]
        groups.append({"title": OTHER, "shown": True, "charts": others})
    return groups


def _filled(chart: Chart, left: dict[str, None], every: list[str]) -> list[dict[str, Any]]:
    """The charts that a pattern makes; the keys that it draws are taken out of `left`."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for pattern in chart.keys:
        expression = re.compile(re.sub(r"NAME|N(?=/)|PART", lambda m: _WILD[m[0]], pattern))
        for key in list(left):
            match = expression.fullmatch(key)
            if match is None or (key.startswith("eval/steps") and "stepsN" not in pattern):
                continue
            if key == "time/elapsed" and pattern != key:
                continue
            parts = match.groupdict()
            label = _label(pattern, key, parts.get("line"))
            lines.setdefault(parts.get("name") or "", []).append(_line(key, label, every))
            left.pop(key)
    return [
        _entry(chart, chart.title.replace("NAME", name), found) for name, found in lines.items()
    ]


def _label(pattern: str, key: str, line: str | None) -> str:
    if line is None:
        return key.partition("/")[0] if "NAME" in pattern else key
    return f"{line} steps" if "stepsN" in pattern else line


def _line(key: str, label: str, every: list[str]) -> dict[str, Any]:
    line = {"key": key, "label": label or key}
    ends = f"{key}_low", f"{key}_high"
    return line | dict(zip(("low", "high"), ends, strict=True)) if ends[0] in every else line


def _entry(chart: Chart, title: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": title.replace("_", " "), "unit": chart.unit, "log": chart.log,
        "meaning": chart.meaning, "lines": lines,
    }  # fmt: skip
