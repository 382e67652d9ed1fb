"""What an evaluation found: the lines of a file summed up, a table, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllmzoo.cli import _output as out
from dllmzoo.cli import _policies as policies
from dllmzoo.cli._answer_file import settings_file

if TYPE_CHECKING:
    from dllmzoo.cli._protocol import Plan
    from dllmzoo.records import Example

OUTCOMES = ("value", "abstain", "error", "timeout")
GREEDY_ANYWAY = ("temperature", "record_drafts")
"""Options of a sampler that evaluation sets, whatever training had."""


def verdicts(task: Any, texts: Sequence[str], examples: Sequence[Example]) -> list[dict[str, Any]]:
    """`solved metrics counts reward rewards` of each text.

    A metric is hits / outof of the text, null where it does not count; `counts` has both numbers
    where `outof` is not 1. A component of the reward is a number, or `abstain`, `error`, `timeout`.
    """
    ratios = task.metrics(texts, examples)
    rewards = task.reward(texts, examples)
    found = []
    for x in range(len(texts)):
        pairs = {name: (ratio.hits[x], ratio.outof[x]) for name, ratio in ratios.items()}
        parts = {
            name: round(float(rewards.part_XC[x, c]), 6)
            if int(rewards.outcome_XC[x, c]) == 0
            else OUTCOMES[int(rewards.outcome_XC[x, c])]
            for c, name in enumerate(rewards.names)
        }
        counted = bool(rewards.counted_X[x])
        found.append(
            {
                "solved": pairs[task.primary][0] > 0.5,
                "metrics": {name: hit / of if of else None for name, (hit, of) in pairs.items()},
                "counts": {name: pair for name, pair in pairs.items() if pair[1] not in (0, 1)},
                "reward": round(float(rewards.total_X[x]), 6) if counted else None,
                "rewards": parts,
            }
        )
    return found


def results(lines: Sequence[Mapping[str, Any]], plan: Plan, samples: int) -> dict[str, Any]:
    """Everything that the lines of an evaluation say, summed up."""
    from dllmzoo.training.evaluate import metrics_of

    counted = [
        {name: _pair(value, line["counts"].get(name)) for name, value in line["metrics"].items()}
        for line in lines
    ]
    names = list(counted[0])
    rewards = [line["reward"] for line in lines if line["reward"] is not None]
    return {
        "answers": len(lines),
        "metrics": metrics_of(counted, plan.recipe.task.primary, samples, names),
        "counts": {name: [sum(pair[i] for pair in _column(counted, name)) for i in (0, 1)]
                   for name in names},
        "primary": plan.recipe.task.primary,
        "reward": sum(rewards) / len(rewards) if rewards else None,
        "rewards_not_counted": len(lines) - len(rewards),
        "reward_outcomes": {
            part: {
                outcome: sum(line["rewards"][part] == outcome for line in lines)
                for outcome in OUTCOMES[1:]
            }
            for part in lines[0]["rewards"]
        },
    }  # fmt: skip


def _pair(value: float | None, pair: Sequence[float] | None) -> tuple[float, float]:
    """(hits, out of) of one text, from how its line writes them."""
    if pair is not None:
        return pair[0], pair[1]
    return (0.0, 0.0) if value is None else (value, 1.0)


def _column(counted: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [each[name] for each in counted]


def report(settings: Mapping[str, Any], file: Path) -> None:
    """The metrics of one evaluation as a table, and where the answers are."""
    metrics, counts = settings["metrics"], settings["counts"]
    rows = []
    for name, value in metrics.items():
        if not name.endswith(("_low", "_high")):
            rows.append((name, _rate(value), interval(metrics, name), of(counts.get(name))))
    if settings["reward"] is not None:
        rows.append(("reward", f"{settings['reward']:.4f}", "", ""))
    rows.append(("forwards per answer", f"{settings['forwards_per_answer']:.2f}", "", ""))
    if "parse_rate" in counts:
        hits, outof = counts["parse_rate"]
        rows.append(("not readable", _rate(1 - hits / outof if outof else None), "",
                     of((outof - hits, outof))))  # fmt: skip
    for part, outcomes in settings["reward_outcomes"].items():
        rows += [
            (f"reward/{part}: {outcome}", "", "", of((number, settings["answers"])))
            for outcome, number in outcomes.items()
            if number
        ]
    out.table(("metric", "value", "95 %", "count"), rows, title=_title(settings))
    out.say()
    out.say(f"answers {file}\nsettings {settings_file(file)}")


def report_lengths(found: Sequence[tuple[Mapping[str, Any], Path]]) -> None:
    """The main metrics of several answer lengths, a row each, and where the answers are."""
    first = found[0][0]
    primary, passes = first["primary"], [x for x in first["metrics"] if x.startswith("pass@")]
    passes = [name for name in passes if not name.endswith(("_low", "_high", "@1"))]
    head = ["answer length", "steps", primary, "95 %"]
    for name in passes:
        head += [name, "95 %"]
    head += ["not readable", "reward", "forwards per answer"]
    rows = []
    for settings, _ in found:
        metrics, sampler = settings["metrics"], settings["sampler"]
        steps = sampler.get("steps", sampler.get("steps_per_block"))
        row = [str(sampler["answer_length"]), "own" if steps is None else str(steps)]
        for name in (primary, *passes):
            row += [_rate(metrics[name]), interval(metrics, name)]
        hits, outof = settings["counts"].get("parse_rate", (0, 0))
        reward = settings["reward"]
        row += [
            of((outof - hits, outof)) if outof else "",
            "" if reward is None else f"{reward:.4f}",
        ]
        rows.append([*row, f"{settings['forwards_per_answer']:.2f}"])
    out.table(head, rows, title=_title(first))
    out.say()
    for _, file in found:
        out.say(f"answers {file}")
    out.say(f"settings beside each, {settings_file(found[0][1]).name}")


def _title(settings: Mapping[str, Any]) -> str:
    title = f"{settings['model']} on {settings['examples']} examples of {settings['task']['name']}"
    if settings["samples"] > 1:
        title += f", {settings['samples']} answers to each"
    if settings["sampler"].get("temperature"):
        title += f" at temperature {settings['sampler']['temperature']}"
    return title


def _rate(value: float | None) -> str:
    return "nothing counts" if value is None else f"{value:.4f}"


def interval(metrics: Mapping[str, Any], name: str) -> str:
    """`0.1 to 0.3`, or nothing."""
    low, high = metrics.get(f"{name}_low"), metrics.get(f"{name}_high")
    return "" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def of(pair: Sequence[float] | None) -> str:
    """`3 of 8`, or nothing."""
    return "" if pair is None else f"{pair[0]:g} of {pair[1]:g}"


def warn_of_device(settings: Mapping[str, Any]) -> None:
    """Say where another machine may answer otherwise."""
    if settings["device"] != "cpu" or settings["dtype"] != "float32":
        out.warn(
            f"note: {settings['dtype']} on {settings['device']}: close choices may fall otherwise "
            f"on another device, batch or library version; compare numbers of one machine"
        )


def warn_of_begun_elsewhere(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Say what has changed around an evaluation since it was begun."""
    from dllmzoo.cli._answer_file import differences

    for name in ("versions", "device", "gpu"):
        for line in differences(before.get(name), now.get(name), name):
            out.warn(f"note: {line} when this evaluation was begun")


def warn_of_other_settings(source: policies.Source, plan: Plan) -> None:
    """Say where the sampler differs from that of the run's evaluations, and of its training."""
    if source.run is None:
        return
    from dllmzoo.recipe import load
    from dllmzoo.recipe.plain import plain_part
    from dllmzoo.training.evaluate import evaluator, greedy

    own = load(source.run / policies.RECIPE_FILE)
    after = plain_part(plan.sampler)
    before = plain_part(greedy(evaluator(own), own.evaluate.steps))
    differing = [n for n in sorted({*before, *after}) if before.get(n) != after.get(n)]
    for name in differing:
        out.warn(
            f"note: sampler.{name} is {after.get(name)}, but the run was evaluated with "
            f"{before.get(name)}; the numbers do not compare"
        )
    trained = plain_part(own.sampler)
    if own.stage != "rl" or "name" in differing:
        return
    others = [
        f"{name} {after.get(name)} (training {trained.get(name)})"
        for name in sorted({*trained, *after})
        if trained.get(name) != after.get(name) and name not in (*differing, *GREEDY_ANYWAY)
    ]
    if others:
        out.warn(f"note: the run's training sampled otherwise: {', '.join(others)}")
