"""Runs made by hand: rows of metrics.jsonl, and their entries in a result."""

from dllmzoo.lab.runs import Arm, Outcome
from dllmzoo.lab.stability.cells import run_entry


def rows(solved, norms=None, passes=4):
    """Metrics of a run that is evaluated every round."""
    norms = norms or [0.1] * (len(solved) - 1)
    found = [{"round": 0, "update": 0, "eval/solved_rate": solved[0]}]
    for i, (rate, norm) in enumerate(zip(solved[1:], norms, strict=True), 1):
        found.append(
            {
                "round": i,
                "update": passes * i,
                "reward": 0.5 + 0.01 * i,
                "grad_norm": norm,
                "grad_norm_max": 2 * norm,
                "log_ratio": -0.5,
                "log_ratio_std": float(i),
                "ratio_q99": 10.0 * i,
                "ratio_max": 100.0 * i,
                "ess_share": 0.5,
                "eval/solved_rate": rate,
                "time/elapsed": 2.0 * i,
            }
        )
    return found


def outcome(found, status="finished", name="base.grpo.0"):
    return Outcome(Arm(name, "stable_drl_sudoku"), status, "", found)


def entries(condition, arm, solved, stopped=0, failed=0):
    """One run a seed; the first `stopped` were stopped, the last `failed` failed."""
    found = []
    for seed, curve in enumerate(solved):
        status = "stopped" if seed < stopped else "finished"
        status = "failed" if seed >= len(solved) - failed else status
        found.append(run_entry(outcome(rows(curve), status), condition, arm, seed, "solved_rate"))
    return found
