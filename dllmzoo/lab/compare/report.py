"""A comparison in words and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dllmzoo.lab.curves import COSTS
from dllmzoo.lab.statistics import Mean, between

Table = tuple[tuple[str, ...], list[tuple[str, ...]], str]
"""Headers, rows and title."""


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Scores and costs, step counts, cost to reach, pairs, and the rates tried."""
    return list(named_tables(result).values())


def named_tables(result: Mapping[str, Any]) -> dict[str, Table]:
    """The tables by a word for each, the scores first."""
    found = {
        "scores": scores(result), "steps": generalisation(result), "reach": reached(result)
    }  # fmt: skip
    if result["pairs"]:
        found["pairs"] = paired(result)
    if result["tuning"]:
        found["rates"] = rates(result["tuning"])
    return found


def scores(result: Mapping[str, Any]) -> Table:
    """Final scores at equal compute, and what was spent."""
    rows = []
    for method in result["methods"]:
        stopped = sum(run["status"] == "stopped" for run in method["runs"])
        rows.append((
            method["label"], f"{method['lr']:g}", str(method["rounds"]),
            f"{method['start']['value']:.3f}", f"{method['final']['value']:.3f}",
            between(Mean(**method["final"])), f"{method['gain']['value']:+.3f}",
            *spent_cells(method), str(stopped) if stopped else "",
        ))  # fmt: skip
    headers = (
        "method", "lr", "rounds", "start", "final", "95 % (t)", "gain", "FLOPs", "samples",
        "updates", "seconds", "stopped",
    )  # fmt: skip
    title = (
        f"{result['metric']} on {result['examples']} held-out examples with {result['steps']} "
        f"denoising steps, after {result['budget_flops']:.3g} FLOPs, {len(result['seeds'])} seeds"
    )
    return headers, rows, title


def generalisation(result: Mapping[str, Any]) -> Table:
    """The same trained policies at other numbers of denoising steps."""
    counts = sorted({result["steps"], *result["also_steps"]})
    rows = []
    for method in result["methods"]:
        at = method["at_steps"] | {str(result["steps"]): method["final"]}
        start = method["start_at_steps"] | {str(result["steps"]): method["start"]}
        cells = []
        for steps in map(str, counts):
            end = Mean(**at[steps]) if steps in at else None
            cells += [
                f"{start[steps]['value']:.3f}",
                "" if end is None else f"{end.value:.3f}",
                "" if end is None else between(end),
            ]
        rows.append((method["label"], str(method["train_steps"]), *cells))
    headers = ["method", "trained with"]
    for steps in counts:
        headers += [f"start, {steps} steps", f"final, {steps} steps", f"95 %, {steps} steps"]
    return tuple(headers), rows, f"{result['metric']} by the number of denoising steps"


def reached(result: Mapping[str, Any]) -> Table:
    """What each method spent until it was first evaluated at the target."""
    rows = []
    for method in result["methods"]:
        hits = [hit for hit in method["reach"] if hit is not None]
        cells = ("",) * len(COSTS)
        if hits:
            mean = {cost: sum(hit[cost] for hit in hits) / len(hits) for cost in COSTS}
            cells = spent_cells(mean)
        rows.append((method["label"], f"{len(hits)} of {len(method['reach'])}", *cells))
    title = (
        f"spent when {result['metric']} was first {result['target']:.3f}, 80 % of the best "
        f"method's final score; mean of the seeds that got there"
    )
    return ("method", "seeds", "FLOPs", "samples", "updates", "seconds"), rows, title


def paired(result: Mapping[str, Any]) -> Table:
    """Every two methods, seed by seed."""
    rows = []
    for pair in result["pairs"]:
        difference = Mean(**pair["difference"])
        rows.append((
            pair["one"], pair["other"], f"{difference.value:+.3f}", between(difference),
            pair["verdict"],
        ))  # fmt: skip
    title = "differences of final scores, paired by seed"
    return ("method", "against", "difference", "95 % (t)", "the first is"), rows, title


def rates(tuning: Mapping[str, Any]) -> Table:
    """The learning rates that were tried."""
    rows = []
    for row in tuning["table"]:
        best = row["lr"] == tuning["rates"][row["recipe"]]
        mark = "chosen" if best else ""
        if best and row["recipe"] in tuning["edge"]:
            mark = "chosen, outermost"
        score = "" if row["last"] is None else f"{row['last']:.3f}"
        rows.append((
            row["recipe"], f"{row['factor']:g}", f"{row['lr']:g}", row["status"], score, mark,
        ))  # fmt: skip
    title = f"learning rates, seed {tuning['seed']}, {tuning['budget_flops']:.3g} FLOPs each"
    return ("method", "factor", "lr", "ended", f"final {tuning['metric']}", ""), rows, title


def verdicts(result: Mapping[str, Any]) -> tuple[str, ...]:
    """What the intervals say about the best method, in sentences."""
    best, *others = result["methods"]
    said = [
        f"{best['label']} has the highest mean {result['metric']}, {best['final']['value']:.3f}, "
        f"at {result['budget_flops']:.3g} FLOPs."
    ]
    below, open_ = [], []
    for method in others:
        pair = next(p for p in result["pairs"] if {p["one"], p["other"]}
                    == {best["label"], method["label"]})  # fmt: skip
        told = pair["verdict"] != "not told apart"
        (below if told else open_).append(method["label"])
    if open_:
        said.append(f"Not told apart from it: {', '.join(open_)}.")
    if below:
        said.append(f"Below it: {', '.join(below)}.")
    number = len(result["pairs"])
    if number > 1:
        told = sum(pair["verdict"] != "not told apart" for pair in result["pairs"])
        said.append(
            f"Of {number} pairs {told} are told apart at 95 % each, with no correction for their "
            f"number: about {0.05 * number:.1f} would be by chance alone."
        )
    decoders: dict[str, list[str]] = {}
    for method in result["methods"]:
        decoders.setdefault(method["decoder"], []).append(method["label"])
    if len(decoders) > 1:
        parts = "; ".join(f"{name} ({', '.join(who)})" for name, who in decoders.items())
        said.append(f"Evaluated with samplers of their own, each greedy: {parts}.")
    unlike = [m["label"] for m in result["methods"]
              if abs(m["flops"] / result["budget_flops"] - 1) > 0.05]  # fmt: skip
    if unlike:
        said.append(f"Spent more than 5 % more or less than the budget: {', '.join(unlike)}.")
    stopped = [
        m["label"] for m in result["methods"] if any(r["status"] == "stopped" for r in m["runs"])
    ]
    if stopped:
        said.append(f"Stopped by a health check on some seed: {', '.join(stopped)}.")
    said += [f"Failed and left out: {label}." for label in result["failed"]]
    return tuple(said)


def spent_cells(costs: Mapping[str, float]) -> tuple[str, str, str, str]:
    """FLOPs, samples, updates and seconds as text."""
    return (
        f"{costs['flops']:.3g}", f"{costs['samples']:.0f}", f"{costs['updates']:.0f}",
        f"{costs['seconds']:.1f}",
    )  # fmt: skip
