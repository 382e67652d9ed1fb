"""Learning rates: every method at several, on a seed of its own, before methods are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dllmzoo.errors import RunError, UsageError
from dllmzoo.lab.compare.contest import Contestant
from dllmzoo.lab.runs import Say, run_arms

SEED = 1000
"""Of the runs that choose a rate: no seed of a comparison."""
FEWEST = 3
EVALUATIONS = 5
"""Of a tuning run: enough to notice a collapse and stop."""


def tuned(
    found: Sequence[Contestant],
    factors: Sequence[float],
    budget: float,
    folder: Path,
    jobs: int,
    say: Say,
) -> dict[str, Any]:
    """The table of rates tried, and the best of each method; written to `rates.json`.

    The best is the one of the highest final score; the lower one of equals. It was chosen on the
    held-out examples that a comparison also reports, but on another seed.

    Args:
        found: methods.
        factors: on the recipe's own rate.
        budget: FLOPs of each run.
        folder: of the runs; resumable.
        jobs: processes.
        say: progress.

    Raises:
        RunError: a method failed at every rate.
    """
    from dllmzoo.training.files import write_json

    refuse_factors(factors)
    arms, places = [], []
    for each in found:
        for factor in sorted(factors):
            rate, rounds = rate_of(each, factor), each.rounds(budget)
            arms.append(each.arm(
                f"{each.label},factor={factor:g}", f"optimizer.lr={rate!r}", f"seed={SEED}",
                *length(rounds, EVALUATIONS), "evaluate.also_steps=[]",
            ))  # fmt: skip
            places.append((each.label, factor, rate))
    metric = f"eval/{found[0].recipe.task.primary}"
    table = []
    outcomes = run_arms(arms, folder, jobs, say=say)
    for (label, factor, rate), outcome in zip(places, outcomes, strict=True):
        scores = [row[metric] for row in outcome.rows if row.get(metric) is not None]
        score = scores[-1] if scores and outcome.status != "failed" else None
        table.append({
            "recipe": label, "factor": factor, "lr": rate, "status": outcome.status,
            "first": scores[0] if scores else None, "last": score,
        })  # fmt: skip
    rates = best_rates(table)
    result = {
        "format": 1, "metric": metric.removeprefix("eval/"), "seed": SEED, "budget_flops": budget,
        "rates": rates, "edge": at_the_edge(table, rates), "table": table,
    }  # fmt: skip
    write_json(folder / "rates.json", result)
    for label in result["edge"]:
        say(f"{label}: its best rate is the outermost tried; a wider --tune may find a better one")
    return result


def refuse_factors(factors: Sequence[float]) -> None:
    """Raise if the factors do not make a search.

    Raises:
        UsageError: fewer than three different ones, or one that is not positive.
    """
    if len(set(factors)) < FEWEST or len(set(factors)) < len(factors) or min(factors) <= 0:
        raise UsageError(
            f"--tune takes at least {FEWEST} different factors above 0 on a recipe's learning "
            f"rate: --tune 0.5,1,2"
        )


def rate_of(each: Contestant, factor: float) -> float:
    """The recipe's learning rate times a factor, to six digits."""
    return float(f"{each.recipe.optimizer.lr * factor:.6g}")


def length(rounds: int, evaluations: int) -> tuple[str, ...]:
    """Changes that give a run its length; it is evaluated and saved about so often."""
    every = max(rounds // evaluations, 1)
    return (
        f"train.rounds={rounds}", "train.max_minutes=null", f"train.save_every={every}",
        "train.keep_last=1", "train.log_rollouts=null", f"evaluate.every={every}",
    )  # fmt: skip


def best_rates(table: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Method -> the rate of its highest final score, the lowest of equals.

    Raises:
        RunError: every run of a method failed.
    """
    rates: dict[str, float] = {}
    for label in dict.fromkeys(row["recipe"] for row in table):
        rows = [row for row in table if row["recipe"] == label and row["last"] is not None]
        if not rows:
            raise RunError(f"{label} failed at every learning rate; see its runs")
        rates[label] = max(rows, key=lambda row: (row["last"], -row["lr"]))["lr"]
    return rates


def at_the_edge(table: Sequence[Mapping[str, Any]], rates: Mapping[str, float]) -> list[str]:
    """Methods whose best rate is the smallest or the largest that was tried."""
    found = []
    for label, rate in rates.items():
        tried = [row["lr"] for row in table if row["recipe"] == label]
        if rate in (min(tried), max(tried)):
            found.append(label)
    return found


def read_rates(path: Path, found: Sequence[Contestant]) -> dict[str, float]:
    """The rate of each method, of a `rates.json` or of a plain mapping.

    Raises:
        UsageError: the file cannot be read, or a method or a proper number is missing.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    rates = content.get("rates", content) if isinstance(content, dict) else {}
    known = {
        label: float(rate)
        for label, rate in (rates.items() if isinstance(rates, dict) else ())
        if type(rate) in (int, float) and rate > 0
    }
    wrong = [each.label for each in found if each.label not in known]
    if wrong:
        raise UsageError(
            f"{path} has no learning rate above 0 for {', '.join(wrong)}; add it, or have it "
            f"found with --tune"
        )
    return {each.label: known[each.label] for each in found}
