"""Laws of losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import LawError, Report, check, law, require, same
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units

Loss = Any
NORMALISERS: tuple[Normaliser, ...] = Normaliser.__args__
LENGTHS = ("none", "token", "canvas")


def check_loss(part: Any, *, cases: int = 20, seed: int = 0) -> Report:
    """Hold a loss (a class or an instance) to every law of losses; see `law.check`."""
    return check("loss", part, cases=cases, seed=seed)


@dataclass(frozen=True)
class Step:
    """Facts and numbers of one optimiser step; log-probs in total nats, float64."""

    units: Units
    new_BU: Tensor
    old_BU: Tensor
    advantage_BU: Tensor


def unit_kind(loss: Loss, case: Case) -> Unit:
    """A kind of unit the loss makes sense for; sequences where it mixes the units of a row."""
    if getattr(loss, "ratio_level", "unit") == "sequence":
        return "sequence"
    return case.among("unit", sorted(loss.units))


def step(loss: Loss, case: Case, *, moved: float = 0.0) -> Step:
    """Random units of groups, log-probs of the old policy, and of one that moved away from it."""
    facts = inputs.units_of_kind(case, unit_kind(loss, case))
    shape = facts.live_BU.shape
    old_BU = -case.uniform("old", *shape, low=0.1, high=4.0).double() * facts.size_BU
    new_BU = old_BU + case.normal("moved", *shape, scale=moved).double()
    advantage_BU = case.normal("advantage", *shape) + 0.01
    return Step(with_totals(facts, advantage_BU), new_BU, old_BU, advantage_BU)


def with_totals(facts: Units, advantage_BU: Tensor) -> Units:
    """The same facts, counting the sequences whose advantage is not 0."""
    nonzero = float((advantage_BU != 0).any(1).sum())
    return replace(facts, totals={**facts.totals, "nonzero": nonzero})


def without_kl(loss: Loss) -> Loss:
    """The same loss without its KL, where it has one."""
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


@law("loss")
def a_scalar_and_metrics_of_units(loss: Loss, case: Case) -> None:
    """It returns a finite scalar, and metrics per unit that carry no gradient."""
    at = step(loss, case, moved=0.3)
    leaf_BU = at.new_BU.clone().requires_grad_()
    scalar, metrics = value(loss, leaf_BU, at.old_BU, at.advantage_BU, at.units)
    require(scalar.ndim == 0 and scalar.isfinite(), f"the loss is {scalar}")
    for name, metric in metrics.items():
        shape = tuple(at.units.live_BU.shape)
        require(tuple(metric.shape) == shape, f"metric {name!r} has shape {tuple(metric.shape)}")
        require(not metric.requires_grad, f"metric {name!r} carries gradient; detach it")


@law("loss")
def first_pass_is_the_policy_gradient(loss: Loss, case: Case) -> None:
    """With new = old the gradient is -A times that of a mean of log-probs, by some normaliser."""
    plain = without_kl(loss)
    at = step(plain, case)
    _, grad_BU = gradient(plain, at.old_BU, at.old_BU, at.advantage_BU, at.units)
    preferred = getattr(loss, "normaliser", None)
    for how in sorted(NORMALISERS, key=lambda name: name != preferred):
        for length in LENGTHS:
            expected_BU = -at.advantage_BU * share(at.units, how, length)
            if torch.allclose(grad_BU, expected_BU, rtol=1e-5, atol=1e-9):
                return
    live = at.units.live_BU
    raise LawError(
        f"gradient / -A is {(grad_BU / -at.advantage_BU)[live].tolist()} for units of sizes "
        f"{at.units.size_BU[live].tolist()}; no normaliser gives that"
    )


@law("loss")
def zero_advantage_gives_no_gradient(loss: Loss, case: Case) -> None:
    """Without a KL, advantages of 0 give a loss of 0 and no gradient, wherever the policy is."""
    plain = without_kl(loss)
    at = step(plain, case, moved=case.among("distance", (0.0, 0.3, 5.0)))
    zero_BU = torch.zeros_like(at.advantage_BU)
    facts = with_totals(at.units, zero_BU)
    scalar, grad_BU = gradient(plain, at.new_BU, at.old_BU, zero_BU, facts)
    same(scalar, torch.zeros_like(scalar), "loss")
    same(grad_BU, torch.zeros_like(grad_BU), "gradient")


@law("loss")
def better_answer_becomes_more_likely(loss: Loss, case: Case) -> None:
    """After one small step the better of two answers is more likely; never less, off policy too."""
    plain = without_kl(loss)
    kind, U = unit_kind(plain, case), case.integer("units", 1, 4)
    U = 1 if kind == "sequence" else U
    facts = inputs.units(2, U, group_size=2, size_BU=torch.full((2, U), float(U)), canvas=U * U)
    height = float(case.uniform("advantage", low=0.1, high=2))
    better = case.integer("better", 0, 1)
    sign_21 = torch.where(torch.arange(2) == better, 1.0, -1.0).unsqueeze(1)
    advantage_BU = (height * sign_21).expand(2, U)
    facts = with_totals(facts, advantage_BU)
    for moved in (0.0, 1.0):
        logit_B = case.normal("logits", 2).double().requires_grad_()
        prob_B = logit_B.log_softmax(0)
        new_BU = (prob_B.unsqueeze(1) / U).expand(2, U)
        away_BU = case.normal("old", 2, 1, scale=moved).double().expand(2, U) / U
        scalar, _ = value(plain, new_BU, new_BU.detach() - away_BU, advantage_BU, facts)
        if moved and not scalar.requires_grad:
            continue
        (grad_B,) = torch.autograd.grad(scalar, logit_B)
        after_B = (logit_B - 1e-4 * grad_B / grad_B.norm().clamp(min=1e-12)).log_softmax(0)
        gain = float((after_B - prob_B)[better].detach())
        enough = gain > 0 if moved == 0 else gain >= -1e-12
        require(enough, f"log-prob of the better answer changes by {gain:.3g}, ratio moved {moved}")


@law("loss")
def splitting_changes_nothing(loss: Loss, case: Case) -> None:
    """Losses of parts with shared totals add up: whole groups may be scored apart."""
    at = step(loss, case, moved=0.3)
    whole, whole_BU = gradient(loss, at.new_BU, at.old_BU, at.advantage_BU, at.units)
    groups = at.units.group_B.unique().tolist()
    order = case.order("groups", len(groups)).tolist()
    cut = case.integer("cut", 0, len(groups))
    total, found_BU = torch.zeros_like(whole), torch.zeros_like(whole_BU)
    for chosen in (order[:cut], order[cut:]):
        if not chosen:
            continue
        rows = inputs.rows_of_groups(at.units.group_B, [groups[i] for i in chosen])
        facts = inputs.take_units(at.units, rows)
        part, found_BU[rows] = gradient(
            loss, at.new_BU[rows], at.old_BU[rows], at.advantage_BU[rows], facts
        )
        total = total + part
    same(total, whole, "sum of the losses of the parts", 1e-6)
    same(found_BU, whole_BU, "gradient of the parts", 1e-6)


@law("loss")
def dead_units_do_nothing(loss: Loss, case: Case) -> None:
    """Units that no slot feeds get no gradient, and their numbers change nothing."""
    at = step(loss, case, moved=0.3)
    dead_BU = ~at.units.live_BU
    if unit_kind(loss, case) in ("sequence", "view"):
        dead_BU = (torch.arange(len(dead_BU)) % 2 == 1).unsqueeze(1).expand(dead_BU.shape)
    size_BU = at.units.size_BU.masked_fill(dead_BU, 0)
    facts = replace(at.units, live_BU=~dead_BU, size_BU=size_BU)
    plain, plain_BU = gradient(loss, at.new_BU, at.old_BU, at.advantage_BU, facts)
    odd_BU = torch.where(dead_BU, at.new_BU - 3.0, at.new_BU)
    found, found_BU = gradient(loss, odd_BU, at.old_BU, at.advantage_BU, facts)
    same(found, plain, "loss with other numbers in dead units", 1e-9)
    same(found_BU, plain_BU, "gradient with other numbers in dead units", 1e-9)
    same(found_BU[dead_BU], torch.zeros_like(found_BU[dead_BU]), "gradient of dead units")


def _has_kl(loss: Loss) -> str | None:
    if getattr(loss, "kl", "none") == "none":
        return "it has no KL"
    return None if loss.kl_coef > 0 else "its KL has no weight"


@law("loss", _has_kl)
def kl_is_a_distance(loss: Loss, case: Case) -> None:
    """The mean KL is >= 0, and 0 only if the policies are equal; all but k1 are >= 0 each."""
    V = case.integer("outcomes", 2, 6)
    logit_V = case.normal("new", V).double()
    other_V = logit_V + case.normal("reference", V, scale=case.among("scale", (0.2, 2.0))).double()
    far, near = _kl_of(loss, logit_V, other_V), _kl_of(loss, logit_V, logit_V)
    same(near, torch.zeros_like(near), "KL of equal policies", 1e-9)
    if loss.kl != "k1":
        require((far >= 0).all(), f"a KL estimate below 0: {far.tolist()}")
    mean = float((logit_V.softmax(0) * far).sum())
    require(mean > 0, f"mean KL {mean:.3g} of different policies")


def _kl_of(loss: Loss, new_V: Tensor, reference_V: Tensor) -> Tensor:
    """The loss of each outcome with advantage 0: its KL, in one unit of one token."""
    new_V, reference_V = new_V.log_softmax(0), reference_V.log_softmax(0)
    exact = (new_V.exp() * (new_V - reference_V)).sum()
    values = []
    for new, anchor in zip(new_V, reference_V, strict=True):
        scalar, _ = value(
            loss, new.view(1, 1), anchor.view(1, 1), torch.zeros(1, 1), inputs.units(1),
            exact_kl_BU=exact.view(1, 1),
        )  # fmt: skip
        values.append(scalar)
    return torch.stack(values)


def _claims_a_bound(loss: Loss) -> str | None:
    if getattr(loss, "bounded_weight", None) is None:
        return "it claims no bound"
    return None if hasattr(loss, "normaliser") else "it names no normaliser"


@law("loss", _claims_a_bound)
def weight_is_bounded(loss: Loss, case: Case) -> None:
    """No ratio, however large, gives a unit more than `bounded_weight` times its advantage."""
    plain = without_kl(loss)
    at = step(plain, case, moved=case.among("distance", (1.0, 10.0, 1e4)))
    scalar, grad_BU = gradient(plain, at.new_BU, at.old_BU, at.advantage_BU, at.units)
    require(scalar.isfinite() and grad_BU.isfinite().all(), f"loss {scalar}, gradient {grad_BU}")
    _, first_BU = gradient(plain, at.old_BU, at.old_BU, at.advantage_BU, at.units)
    live = at.units.live_BU
    share_BU = _smallest_share(plain.normaliser, first_BU, at)
    weight_U = (grad_BU.abs() / (share_BU * at.advantage_BU.abs()))[live]
    limit = float(plain.bounded_weight)
    require(
        (weight_U <= limit * (1 + 1e-5)).all(),
        f"a unit weighs {weight_U.max():.6g}, the bound is {limit:.6g}",
    )


def _smallest_share(how: Normaliser, first_BU: Tensor, at: Step) -> Tensor:
    """The unit's share in the normaliser, its length being the one that the first pass shows."""
    live = at.units.live_BU
    for length in ("canvas", "token", "none"):
        share_BU = share(at.units, how, length)
        weight_U = (first_BU / (share_BU * -at.advantage_BU))[live]
        even = torch.allclose(weight_U, weight_U[:1].expand_as(weight_U), rtol=1e-4)
        if even and weight_U[0] <= 1 + 1e-6:
            return share_BU
    return share(at.units, how, "none")
