"""One optimiser step as the laws of losses see it: units, log-probs, advantages, a loss of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units

Loss = Any


@dataclass(frozen=True)
class Step:
    """Facts and numbers of one optimiser step; log-probs in total nats, float64."""

    units: Units
    new_BU: Tensor
    old_BU: Tensor
    advantage_BU: Tensor


def unit_kind(loss: Loss, case: Case) -> Unit:
    """A kind of unit the loss makes sense for; sequences where it mixes the units of a row."""
    if getattr(loss, "ratio_level", "unit") == "sequence" and "sequence" in loss.units:
        return "sequence"
    return case.among("unit", sorted(loss.units))


def step(loss: Loss, case: Case, *, moved: float = 0.0) -> Step:
    """Random units of groups, log-probs of the old policy, and of one that moved away from it."""
    facts = in_a_run(inputs.units_of_kind(case, unit_kind(loss, case)), case)
    shape = facts.live_BU.shape
    old_BU = -case.uniform("old", *shape, low=0.1, high=4.0).double() * facts.size_BU
    new_BU = old_BU + case.normal("moved", *shape, scale=moved).double()
    advantage_BU = case.normal("advantage", *shape) + 0.01
    return Step(with_totals(facts, advantage_BU), new_BU, old_BU, advantage_BU)


def in_a_run(facts: Units, case: Case) -> Units:
    """The same facts with what a run adds: a key, sample numbers, two shared states a group."""
    B, U = facts.live_BU.shape
    later_U = (torch.arange(U) >= U / 2).long()
    parent_BU = 2 * facts.group_B.unsqueeze(1) + later_U
    parents = float(parent_BU[facts.live_BU].unique().numel())
    return replace(
        facts, sample_B=torch.arange(B), parent_BU=parent_BU, key=case.key("loss"),
        totals={**facts.totals, "parents": parents},
    )  # fmt: skip


def with_totals(facts: Units, advantage_BU: Tensor) -> Units:
    """The same facts, counting the sequences whose advantage is not 0."""
    nonzero = float((advantage_BU != 0).any(1).sum())
    return replace(facts, totals={**facts.totals, "nonzero": nonzero})


def without_kl(loss: Loss) -> Loss:
    """The same loss, or the same around another one, without its KL, where it has one."""
    if hasattr(loss, "inner"):
        return replace(loss, inner=without_kl(loss.inner))
    return replace(loss, kl="none") if hasattr(loss, "kl") else loss


def value(
    loss: Loss, new_BU: Tensor, old_BU: Tensor, advantage_BU: Tensor, units: Units, *,
    reference_BU: Tensor | None = None, exact_kl_BU: Tensor | None = None,
) -> tuple[Tensor, Any]:  # fmt: skip
    """Scalar and metrics; old and reference are given only where the loss needs them."""
    reference_BU = old_BU if reference_BU is None else reference_BU
    if loss.needs_exact_kl and exact_kl_BU is None:
        exact_kl_BU = torch.zeros_like(old_BU)
    return loss(
        Estimate(new_BU, new_BU, exact_kl_BU),
        inputs.estimate(old_BU) if loss.needs_old else None,
        inputs.estimate(reference_BU) if loss.needs_reference else None,
        advantage_BU, units,
    )  # fmt: skip


def gradient(
    loss: Loss, new_BU: Tensor, old_BU: Tensor, advantage_BU: Tensor, units: Units
) -> tuple[Tensor, Tensor]:
    """Value and gradient in the log-probs of the new policy; 0 where it does not depend on them."""
    leaf_BU = new_BU.clone().requires_grad_()
    scalar, _ = value(loss, leaf_BU, old_BU, advantage_BU, units)
    if not scalar.requires_grad:
        return scalar, torch.zeros_like(leaf_BU)
    (grad_BU,) = torch.autograd.grad(scalar, leaf_BU, allow_unused=True)
    return scalar.detach(), torch.zeros_like(leaf_BU) if grad_BU is None else grad_BU


def share(units: Units, how: Normaliser, length: str) -> Tensor:
    """Weight of each unit's log-prob in `units.mean` of log-probs divided by a length, (B, U)."""
    leaf_BU = torch.zeros(units.live_BU.shape, dtype=torch.float64, requires_grad=True)
    divisor_BU = {"token": units.size_BU.clamp(min=1), "canvas": float(units.canvas)}.get(length, 1)
    (grad_BU,) = torch.autograd.grad(units.mean(leaf_BU / divisor_BU, how), leaf_BU)
    return grad_BU
