"""Laws of selectors of denoising steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import (
    Report,
    check,
    law,
    require,
    same,
    untouched_global_generator,
)
from dllmzoo.records import Rollout, Steps, take

Selector = Any


def check_selector(part: Any, *, cases: int = 20, seed: int = 0) -> Report:
    """Hold a selector (a class or an instance) to every law of selectors; see `law.check`."""
    return check("selector", part, cases=cases, seed=seed)


def choose(selector: Selector, rollout: Rollout, case: Case, tag: str = "select") -> Steps:
    """The selector's choice; one that ranks by advantage gets random advantages of all steps."""
    key = case.key(tag)
    if not getattr(selector, "needs_advantage", False):
        return selector(rollout, key)
    rows = [Case(int(i)).normal("advantage", rollout.num_steps) for i in rollout.sample_B]
    return selector(rollout, key, torch.stack(rows))


def played(selector: Selector, case: Case) -> Rollout:
    """A random rollout with at least as many steps as the selector keeps."""
    complete = case.truth("complete")
    return inputs.rollout(case, min_steps=getattr(selector, "steps", 1), complete=complete)


def used_steps(steps: Steps, num_steps: int) -> Tensor:
    """How many entries of positive weight hold each step, int64 (B, T)."""
    step_T = torch.arange(num_steps)
    inside_BKT = (steps.start_BK.unsqueeze(2) <= step_T) & (step_T < steps.stop_BK.unsqueeze(2))
    return (inside_BKT & (steps.weight_BK > 0).unsqueeze(2)).sum(1)


def busy_steps(rollout: Rollout) -> Tensor:
    """Steps that committed something, bool (B, T)."""
    step_T1 = torch.arange(rollout.num_steps).unsqueeze(1)
    return (rollout.reveal_BL.unsqueeze(1) == step_T1).any(2)


@law("selector")
def spans_inside(selector: Selector, case: Case) -> None:
    """Spans lie inside [0, T], weights are finite and >= 0, and all three tables are (B, K)."""
    rollout = played(selector, case)
    steps = choose(selector, rollout, case)
    start_BK, stop_BK, weight_BK = steps.start_BK, steps.stop_BK, steps.weight_BK
    require(
        start_BK.shape == stop_BK.shape == weight_BK.shape and start_BK.ndim == 2,
        f"shapes {[tuple(t.shape) for t in (start_BK, stop_BK, weight_BK)]}",
    )
    require(len(start_BK) == len(rollout.tokens_BL), f"{len(start_BK)} rows")
    require(start_BK.dtype == stop_BK.dtype == torch.int64, f"dtypes {start_BK.dtype}")
    require(weight_BK.is_floating_point(), f"weights are {weight_BK.dtype}")
    T = rollout.num_steps
    inside = (start_BK >= 0) & (start_BK <= stop_BK) & (stop_BK <= T)
    require(inside.all(), f"a span outside [0, {T}]: {start_BK.tolist()} to {stop_BK.tolist()}")
    require(((weight_BK >= 0) & weight_BK.isfinite()).all(), f"weights {weight_BK.tolist()}")


@law("selector")
def empty_spans_weigh_nothing(selector: Selector, case: Case) -> None:
    """An entry has weight above 0 only if its span committed something."""
    rollout = played(selector, case)
    steps = choose(selector, rollout, case)
    busy_BT = busy_steps(rollout)
    step_T = torch.arange(rollout.num_steps)
    span_BKT = (steps.start_BK.unsqueeze(2) <= step_T) & (step_T < steps.stop_BK.unsqueeze(2))
    filled_BK = (span_BKT & busy_BT.unsqueeze(1)).any(2)
    wrong = ((steps.weight_BK > 0) & ~filled_BK).nonzero().tolist()
    require(not wrong, f"weight above 0 at (row, column) {wrong}, where nothing was committed")


@law("selector")
def something_is_chosen(selector: Selector, case: Case) -> None:
    """A row in which every step committed something has an entry of weight above 0."""
    rollout = played(selector, case)
    steps = choose(selector, rollout, case)
    full_B = busy_steps(rollout).all(1)
    require((steps.weight_BK[full_B] > 0).any(1).all(), f"weights {steps.weight_BK.tolist()}")


@law("selector")
def distinct(selector: Selector, case: Case) -> None:
    """No step is in two entries of positive weight of a row."""
    rollout = played(selector, case)
    count_BT = used_steps(choose(selector, rollout, case), rollout.num_steps)
    require((count_BT <= 1).all(), f"uses of each step: {count_BT.tolist()}")


def _has_steps(selector: Selector) -> str | None:
    return None if hasattr(selector, "steps") else "it has no number of steps"


@law("selector", _has_steps)
def first_choice_first(selector: Selector, case: Case) -> None:
    """Column k is the k-th choice: a selector that keeps fewer keeps the first columns."""
    rollout = played(selector, case)
    fewer = replace(selector, steps=case.integer("fewer", 1, selector.steps))
    some, all_ = choose(fewer, rollout, case), choose(selector, rollout, case)
    for found, expected in zip(vars(some).values(), vars(all_).values(), strict=True):
        same(found, expected[:, : fewer.steps], f"columns of {fewer.steps} of {selector.steps}")


def _can_keep_all(selector: Selector) -> str | None:
    keeps = getattr(selector, "num_selected", lambda num_steps: 0)
    return None if hasattr(selector, "steps") or keeps(7) == 7 else "it never keeps all steps"


@law("selector", _can_keep_all)
def all_when_k_is_t(selector: Selector, case: Case) -> None:
    """With K = T every step that committed something is used once, with weight 1."""
    rollout = played(selector, case)
    T = rollout.num_steps
    whole = replace(selector, steps=T) if hasattr(selector, "steps") else selector
    steps = choose(whole, rollout, case)
    same(used_steps(steps, T), busy_steps(rollout).long(), "uses of each step")
    used = steps.weight_BK > 0
    same(steps.weight_BK[used], torch.ones(int(used.sum())), "weights of used entries")


@law("selector")
def batch_invariant(selector: Selector, case: Case) -> None:
    """A row's steps do not depend on the other rows or on the order of rows."""
    rollout = played(selector, case)
    order = case.order("rows", len(rollout.tokens_BL))
    rows = order[: case.integer("kept rows", 1, len(order))]
    whole, part = choose(selector, rollout, case), choose(selector, take(rollout, rows), case)
    for name in ("start_BK", "stop_BK", "weight_BK"):
        same(getattr(part, name), getattr(whole, name)[rows], f"{name} of rows {rows.tolist()}")


@law("selector")
def ties_to_the_smaller_step(selector: Selector, case: Case) -> None:
    """A selector that ranks by entropy ranks equal entropies by time, the smaller step first."""
    N = max(2, case.integer("slots", 2, 8), getattr(selector, "steps", 1))
    B = case.integer("rows", 1, 4)
    reveal_BN = torch.stack([case.order(f"reveal {b}", N) for b in range(B)])
    words_BN = torch.zeros(B, N, dtype=torch.long)

    def start(entropy_BN: Tensor, tag: str = "select") -> Tensor:
        return choose(
            selector, inputs.played(words_BN, reveal_BN, entropy_BN=entropy_BN), case, tag
        ).start_BK

    rising, equal = start(1 + reveal_BN.float()), start(torch.ones(B, N))
    falling, other = start(1.0 + N - reveal_BN), start(torch.ones(B, N), "other")
    if torch.equal(rising, falling) or not torch.equal(equal, other):
        return
    require((equal.diff(dim=1) > 0).all(), f"equal entropies are ranked {equal.tolist()}")


@law("selector")
def keyed_randomness(selector: Selector, case: Case) -> None:
    """The same key gives the same steps, and the global generator is not touched."""
    rollout = played(selector, case)
    with untouched_global_generator():
        first, second = choose(selector, rollout, case), choose(selector, rollout, case)
    for name in ("start_BK", "stop_BK", "weight_BK"):
        same(getattr(second, name), getattr(first, name), f"{name} of the same key")
