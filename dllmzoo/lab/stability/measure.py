"""What a run is summed up in: ends of its curves, largest values, and quantiles over rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

CURVES = (
    "round", "update", "reward", "rollout/solved_rate", "grad_norm", "grad_norm_max", "ratio_q01",
    "ratio_q50", "ratio_q99", "ratio_max", "log_ratio", "log_ratio_std", "ess_share",
    "ratio_clipped", "clip_low_fraction", "clip_high_fraction", "drift",
)  # fmt: skip
"""Keys of metrics.jsonl that a result keeps, with the main metric of the evaluations."""

Figures = dict[str, float | None]


def curves(rows: Sequence[dict[str, Any]], primary: str) -> list[dict[str, float | None]]:
    """The rows of a run, what the lab reads of them; numbers that are not finite become null."""
    keys = (*CURVES, f"eval/{primary}")
    return [{key: _finite(row[key]) for key in keys if key in row} for row in rows]


def figures(rows: Sequence[dict[str, Any]], primary: str) -> Figures:
    """A run in numbers; None where it has none.

    `solved_*` are of the evaluations: the first, the last, the lowest, and `late`, the mean of
    those in the second half of the updates that the run made. `reward_*` are means of the first
    and the last quarter of the rounds. Quantiles of gradient norms are over the rounds, of the
    largest norm of each; the median of a quantile of ratios, likewise over rounds.
    `log_ratio_var` is the variance inside a round: its mean, and that of the first and the last
    quarter. `clipped` is S, the mean clipped ratio: its mean, its lowest and its highest round.
    `kl` is minus the mean log-ratio, an estimate of the KL from the old policy to the new one.
    """
    trained = [row for row in rows if row["round"] > 0]
    solved = [(row["update"], row[f"eval/{primary}"]) for row in rows if f"eval/{primary}" in row]
    solved = [(update, value) for update, value in solved if value is not None]
    late = [value for update, value in solved[1:] if 2 * update > rows[-1]["update"]]
    values = [value for _, value in solved]

    reward = _column(trained, "reward")
    norm = _column(trained, "grad_norm_max")
    variance = [std**2 for std in _column(trained, "log_ratio_std")]
    ess = _column(trained, "ess_share")
    clipped = _column(trained, "ratio_clipped")
    drift = _column(trained, "drift")
    return {
        "updates": rows[-1]["update"] if rows else 0,
        "seconds": rows[-1].get("time/elapsed") if rows else None,
        "solved_first": values[0] if values else None,
        "solved_last": values[-1] if values else None,
        "solved_low": min(values, default=None),
        "solved_late": mean(late),
        "reward_first": mean(_head(reward)),
        "reward_last": mean(_tail(reward)),
        "grad_first": trained[0].get("grad_norm") if trained else None,
        "grad_q50": quantile(norm, 0.5),
        "grad_q90": quantile(norm, 0.9),
        "grad_max": max(norm, default=None),
        "ratio_q01": quantile(_column(trained, "ratio_q01"), 0.5),
        "ratio_q50": quantile(_column(trained, "ratio_q50"), 0.5),
        "ratio_q99": quantile(_column(trained, "ratio_q99"), 0.5),
        "ratio_max": max(_column(trained, "ratio_max"), default=None),
        "log_ratio_var": mean(variance),
        "log_ratio_var_first": mean(_head(variance)),
        "log_ratio_var_last": mean(_tail(variance)),
        "ess": mean(ess),
        "ess_low": min(ess, default=None),
        "clipped": mean(clipped),
        "clipped_low": min(clipped, default=None),
        "clipped_high": max(clipped, default=None),
        "clip_low_fraction": mean(_column(trained, "clip_low_fraction")),
        "clip_high_fraction": mean(_column(trained, "clip_high_fraction")),
        "drift": mean(drift),
        "drift_max": max(drift, default=None),
        "kl": _negative(mean(_column(trained, "log_ratio"))),
    }


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return math.fsum(values) / len(values) if values else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value of the nearest rank, as the meter of a run takes it; None of nothing."""
    order = sorted(values)
    return order[round(share * (len(order) - 1))] if order else None


def _column(rows: Sequence[dict[str, Any]], key: str) -> list[float]:
    """The finite values of a key."""
    return list(_kept(row.get(key) for row in rows))


def _kept(values: Iterator[float | None]) -> Iterator[float]:
    return (value for value in values if value is not None and math.isfinite(value))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _head(values: Sequence[float]) -> Sequence[float]:
    """The first quarter, one at least."""
    return values[: max(len(values) // 4, 1)]


def _tail(values: Sequence[float]) -> Sequence[float]:
    """The last quarter, one at least."""
    return values[-max(len(values) // 4, 1) :]


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
