"""One estimator on many rows: planned, scored and pooled through the components themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.lab.estimators.reader import Reading, logprobs, reading
from dllmzoo.lab.estimators.world import World
from dllmzoo.recipe.plain import name_of
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views, take

NO_DRAFTS = "it reads proposals that the lab's random-order sampler does not store"
NO_BLOCKS = (
    "it works in the blocks of the network's attention, and the lab's exact truths are those of "
    "networks that attend to everything"
)
CELLS = 4_000_000
"""Most slots of the views that are planned at a time."""


class CannotMeasure(Exception):
    """Why an estimator is left out; printed, never raised to the user."""


@dataclass(frozen=True)
class Estimator:
    """A likelihood with settings, and the selector of its steps.

    Args:
        name: as registered.
        label: name and settings, as shown.
        likelihood: the component.
        selector: where the likelihood scores chosen steps; else None.
    """

    name: str
    label: str
    likelihood: Any
    selector: Any = None


@dataclass(frozen=True)
class Planned:
    """Views of some rows and what the old policy says of them.

    Args:
        rows: their numbers.
        rollout: the rows.
        views: planned, refined by a likelihood that refines.
        found: where the log-probs of the views are read.
        old_BKL: under the old policy.
    """

    rows: Tensor
    rollout: Rollout
    views: Views
    found: Reading
    old_BKL: Tensor


def refuse(estimator: Estimator) -> None:
    """Raise where the lab's rollouts have not what the parts read.

    Raises:
        CannotMeasure: says what is missing.
    """
    if getattr(estimator.likelihood, "needs_drafts", False):
        raise CannotMeasure(NO_DRAFTS)
    if getattr(estimator.likelihood, "needs_blocks", False):
        raise CannotMeasure(NO_BLOCKS)
    if getattr(estimator.selector, "needs_branches", False):
        raise CannotMeasure("its selector reads branches of a tree, which the lab does not grow")


def plans(
    world: World, estimator: Estimator, rollout: Rollout, advantage_B: Tensor, key: Key
) -> Iterator[Planned]:
    """The rows in parts small enough for memory; each row's plan does not depend on the parts.

    Raises:
        CannotMeasure: the likelihood refuses.
    """
    likelihood = estimator.likelihood
    size, start, B = 1, 0, len(rollout.tokens_BL)
    while start < B:
        rows = torch.arange(start, min(start + size, B))
        part = take(rollout, rows)
        try:
            steps = chosen(estimator.selector, part, advantage_B[rows], key)
            views = likelihood.plan(part, steps, key, 1)
        except (ValueError, LookupError) as error:
            raise CannotMeasure(f"it refuses: {error}") from error
        found = reading(part, views, world.old.mask_id)
        old_BKL = logprobs(world.old, found, world.micro_batch)
        if hasattr(likelihood, "refine"):
            refined = likelihood.refine(views, old_BKL)
            if refined is not views:
                views = refined
                found = reading(part, views, world.old.mask_id)
                old_BKL = torch.where(views.score_BKL, old_BKL, 0)
        yield Planned(rows, part, views, found, old_BKL)
        start += size
        cells = views.score_BKL.numel() // len(rows)
        size = max(1, CELLS // max(cells, 1))


def chosen(selector: Any, rollout: Rollout, advantage_B: Tensor, key: Key) -> Steps | None:
    """The selector's steps of each row; None without a selector."""
    if selector is None:
        return None
    select = replace(key, purpose=f"{key.purpose}/select")
    if getattr(selector, "needs_advantage", False):
        advantage_BT = advantage_B.float().unsqueeze(1).expand(-1, rollout.num_steps)
        return selector(rollout, select, advantage_BT)
    return selector(rollout, select)


def pooled(
    estimator: Estimator, planned: Planned, logprob_BKL: Tensor, advantage_B: Tensor | float
) -> Estimate:
    """The estimate of each unit; some pools read the advantage, of each row or of all."""
    advantage_BU = torch.ones_like(planned.views.size_BU)
    if isinstance(advantage_B, Tensor):
        advantage_B = advantage_B.to(advantage_BU.dtype).unsqueeze(1)
    advantage_BU = advantage_BU * advantage_B
    return estimator.likelihood.pool(logprob_BKL, planned.views, planned.rollout, advantage_BU)


def settings_of(part: Any) -> dict[str, Any]:
    """Name and options of a component."""
    return {"name": name_of(part), **{f.name: getattr(part, f.name) for f in fields(part)}}


def total(estimator: Estimator, value_BU: Tensor, views: Views) -> Tensor:
    """The estimate of the whole answer, (B,): units added up, or averaged where each is whole.

    Terms carry their importance weights, as they do in a loss.
    """
    live_BU = views.live_BU
    weight_BU = torch.where(live_BU, views.weight_BU, 0).to(value_BU.dtype)
    total_B = (torch.where(live_BU, value_BU, 0) * weight_BU).sum(1)
    if estimator.likelihood.unit == "view":
        return total_B / live_BU.sum(1).clamp(min=1)
    return total_B


def score_gradient(estimator: Estimator, planned: Planned, advantage_B: Tensor) -> Tensor:
    """grad_BKL of advantage * estimate, summed over rows, at the log-probs of the old policy."""
    leaf_BKL = planned.old_BKL.detach().requires_grad_()
    score_BU = pooled(estimator, planned, leaf_BKL, advantage_B).score_BU
    value = (total(estimator, score_BU, planned.views) * advantage_B).sum()
    if not value.requires_grad:
        return torch.zeros_like(leaf_BKL)
    return torch.autograd.grad(value, leaf_BKL)[0]
