"""A likelihood's plan of a random rollout, as the laws of likelihoods and their tests use it."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs, trajectories
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import require, same
from dllmzoo.records import Rollout, Steps, Views, take

Likelihood = Any
FIELDS = (
    "hide_BKL", "score_BKL", "weight_BKL", "unit_BKL", "size_BU", "weight_BU", "column_BU",
)  # fmt: skip
OPTIONAL = ("shown_BKL", "target_BKL", "parent_BU")


@dataclass(frozen=True)
class Planned:
    """A rollout, the steps chosen in it, and the views planned for them."""

    rollout: Rollout
    steps: Steps | None
    views: Views

    def rows(self, rows: Tensor) -> Planned:
        """The same for some rows."""
        steps = None if self.steps is None else take(self.steps, rows)
        return Planned(take(self.rollout, rows), steps, take(self.views, rows))

    def ones_BU(self) -> Tensor:
        """A positive advantage for every unit."""
        return torch.ones_like(self.views.size_BU)


def plan(
    likelihood: Likelihood, rollout: Rollout, steps: Steps | None, case: Case, pass_: int = 0
) -> Planned:
    """The views of one pass; `steps` are passed only to a likelihood that uses them."""
    steps = steps if likelihood.uses_steps else None
    views = likelihood.plan(rollout, steps, case.key("views", pass_), 3)
    return Planned(rollout, steps, views)


def planned(likelihood: Likelihood, case: Case, pass_: int = 0) -> Planned:
    """A random rollout, random steps of it, and the plan."""
    rollout = some_rollout(likelihood, case)
    return plan(likelihood, rollout, some_steps(rollout, case), case, pass_)


def some_rollout(likelihood: Likelihood, case: Case) -> Rollout:
    """A random rollout of any kind, with stored drafts or blocks if the likelihood needs them."""
    drafts, blocks = getattr(likelihood, "needs_drafts", False), needs_blocks(likelihood)
    complete = case.truth("complete")
    return trajectories.varied(case, complete=complete, drafts=drafts, in_order=blocks)


def suited_plain(likelihood: Likelihood, case: Case) -> Rollout:
    """A plain rollout, written block after block if the likelihood needs blocks."""
    source = inputs.rollout(case)
    if not needs_blocks(likelihood):
        return source
    return trajectories.by_blocks(source, trajectories.some_block_size(case))


def needs_blocks(likelihood: Likelihood) -> bool:
    """Whether the likelihood reads the blocks of the network's attention."""
    return bool(getattr(likelihood, "needs_blocks", False))


def suited(
    likelihood: Likelihood, source: Rollout, case: Case, *, remask: bool = True,
    words: int = trajectories.WORDS,
) -> Rollout:  # fmt: skip
    """The rollout as the likelihood needs it: with blocks, one written after the other.

    With stored drafts if it needs them, else in every other case.
    """
    if needs_blocks(likelihood):
        size = source.block_size or trajectories.some_block_size(case)
        source, remask = trajectories.by_blocks(source, size), False
    if not (getattr(likelihood, "needs_drafts", False) or case.truth("stored")):
        return source
    return trajectories.with_stored_states(source, case, remask=remask, words=words)


def some_steps(rollout: Rollout, case: Case) -> Steps:
    """All steps, or distinct ones in random order with some unused entries."""
    steps = inputs.every_step(rollout)
    if case.truth("every step"):
        return steps
    kept = case.order("steps", rollout.num_steps)[: case.integer("kept", 1, rollout.num_steps)]
    weight_BK = steps.weight_BK[:, kept] * case.among("step weight", (1.0, 1.0, 2.5))
    return Steps(steps.start_BK[:, kept], steps.stop_BK[:, kept], weight_BK)


def at_temperature_one(likelihood: Likelihood) -> Likelihood:
    """The same likelihood with the temperature of the rollout."""
    if hasattr(likelihood, "temperature") and is_dataclass(likelihood):
        return replace(likelihood, temperature=None)  # type: ignore[type-var]
    return likelihood


def equal_views(found: Views, expected: Views, what: str, skip: int = 0) -> None:
    """Refute the law unless two plans are alike, leaving out `skip` columns of padding."""
    for name in FIELDS[:3]:
        value_BKL, other_BKL = getattr(found, name)[..., skip:], getattr(expected, name)
        scored = found.score_BKL[..., skip:] if name == "weight_BKL" else None
        if scored is not None:
            value_BKL, other_BKL = value_BKL * scored, other_BKL * expected.score_BKL
        same(value_BKL, other_BKL, f"{name} {what}")
    for name in OPTIONAL:
        value, other = getattr(found, name), getattr(expected, name)
        require((value is None) == (other is None), f"{name} {what} is missing in one plan")
        if value is not None and name.endswith("BU"):
            value, other = _at_slots(value, found), _at_slots(other, expected)
        if value is not None:
            same(value[..., skip:], other, f"{name} {what}")
    require(
        (found.temperature, found.layout, found.context)
        == (expected.temperature, expected.layout, expected.context),
        f"temperature or layout {what}",
    )


def _at_slots(value_BU: Tensor, views: Views) -> Tensor:
    """The value of the unit that each scored slot feeds, (B, K, L); 0 elsewhere."""
    unit = torch.where(views.score_BKL, views.unit_BKL, 0)
    value = value_BU.gather(1, unit.flatten(1)).view(unit.shape)
    return torch.where(views.score_BKL, value, 0)


def many_rows(likelihood: Likelihood, case: Case, rows: int) -> Planned:
    """A plan of many independent rows of ragged valid length."""
    N = case.integer("answer length", 2, 8)
    tokens_BN = case.integers("tokens", 0, inputs.END_ID, rows, N)
    reveal_BN = case.integers("reveal", 0, 2, rows, N)
    rollout = inputs.played(tokens_BN, reveal_BN, num_steps=3)
    rollout = suited(likelihood, rollout, case)
    return plan(likelihood, rollout, inputs.every_step(rollout), case)


def mean_is(sample: Tensor, expected: float, what: str) -> None:
    """Refute the law if the mean of independent draws is 5 standard errors from what it must be."""
    if len(sample) < 2:
        return  # no spread to judge it by
    error = 5 * float(sample.std()) / len(sample) ** 0.5 + 1e-5
    mean = float(sample.mean())
    require(
        abs(mean - expected) <= error,
        f"{what}: mean {mean:.6g} over {len(sample)} draws, expected {expected:.6g} +- {error:.2g}",
    )
