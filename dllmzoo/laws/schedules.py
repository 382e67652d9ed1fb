"""Laws of noise schedules."""

from __future__ import annotations

from typing import Any

import torch

from dllmzoo.laws.case import Case
from dllmzoo.laws.law import Report, check, law, require, same

Schedule = Any


def check_schedule(part: Any, *, cases: int = 20, seed: int = 0) -> Report:
    """Hold a schedule (a class or an instance) to every law of schedules; see `law.check`."""
    return check("schedule", part, cases=cases, seed=seed)


@law("schedule")
def ends(schedule: Schedule, case: Case) -> None:
    """Nothing is masked at t = 0 and everything at t = 1."""
    t = torch.tensor([0.0, 1.0], dtype=torch.float64)
    same(schedule.mask_prob(t), t, "mask_prob of 0 and 1", 1e-9)


@law("schedule")
def monotone(schedule: Schedule, case: Case) -> None:
    """The mask probability lies in [0, 1] and never falls as t grows."""
    t = case.uniform("t", 2 + 8 * case.size).double().sort().values
    prob = schedule.mask_prob(t)
    require((prob >= 0).all() and (prob <= 1).all(), f"outside [0, 1]: {prob.tolist()}")
    require((prob.diff() >= -1e-12).all(), f"falls somewhere in {prob.tolist()} at {t.tolist()}")


@law("schedule")
def rate_is_the_derivative(schedule: Schedule, case: Case) -> None:
    """`rate` is the derivative of `mask_prob`."""
    t, h = case.uniform("t", 1 + case.size, low=0.01, high=0.99).double(), 1e-6
    slope = (schedule.mask_prob(t + h) - schedule.mask_prob(t - h)) / (2 * h)
    same(schedule.rate(t).double(), slope, f"rate at {t.tolist()}", 1e-5)


@law("schedule")
def elementwise(schedule: Schedule, case: Case) -> None:
    """Each entry of a tensor is treated alone, whatever the tensor's shape."""
    t = case.uniform("t", 2, 1 + case.size, low=0.01, high=0.99)
    for function in (schedule.mask_prob, schedule.rate):
        alone = torch.stack([function(entry) for entry in t.flatten()])
        same(function(t), alone.view(t.shape), f"{function.__name__} of {t.tolist()}", 1e-6)


@law("schedule")
def commits_sum(schedule: Schedule, case: Case) -> None:
    """`commits` gives one whole number >= 0 for each step, and they sum to the masked tokens."""
    masked, steps = case.integer("masked", 0, 40), case.integer("steps", 1, 20)
    counts = schedule.commits(masked, steps)
    what = f"commits({masked}, {steps}) = {counts}"
    require(len(counts) == steps, f"{what}: {len(counts)} numbers")
    require(all(isinstance(c, int) and c >= 0 for c in counts), f"{what}: not whole or negative")
    require(sum(counts) == masked, f"{what}: the sum is {sum(counts)}")
