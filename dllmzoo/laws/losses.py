"""Laws of losses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import LawError, Report, check, law, require, same
from dllmzoo.laws.optimiser_step import (
    Loss,
    Step,
    gradient,
    in_a_run,
    share,
    step,
    unit_kind,
    value,
    with_totals,
    without_kl,
)
from dllmzoo.records import Normaliser, Units, take

NORMALISERS: tuple[Normaliser, ...] = Normaliser.__args__
LENGTHS = ("none", "token", "canvas")


def check_loss(part: Any, *, cases: int = 20, seed: int = 0) -> Report:
    """Hold a loss (a class or an instance) to every law of losses; see `law.check`."""
    return check("loss", part, cases=cases, seed=seed)


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
            if torch.allclose(grad_BU, expected_BU, rtol=1e-6, atol=1e-9):
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
    facts = in_a_run(facts, case)
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
        facts = take(at.units, rows)
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


@law("loss")
def the_order_of_rows_changes_nothing(loss: Loss, case: Case) -> None:
    """Samples in another order have the same loss, and their own gradients and metrics."""
    at = step(loss, case, moved=0.3)
    order_B = case.order("rows", len(at.old_BU))
    metrics, found = [], []
    for rows in (torch.arange(len(order_B)), order_B):
        new_BU, old_BU, advantage_BU = (
            each[rows] for each in (at.new_BU, at.old_BU, at.advantage_BU)
        )
        facts = take(at.units, rows)
        found.append(gradient(loss, new_BU, old_BU, advantage_BU, facts))
        metrics.append(value(loss, new_BU, old_BU, advantage_BU, facts)[1])
    (scalar, grad_BU), (moved, moved_BU) = found
    same(moved, scalar, "loss of the rows in another order", 1e-6)
    same(moved_BU, grad_BU[order_B], "gradient of the rows in another order", 1e-6)
    for name, metric_BU in metrics[0].items():
        same(metrics[1][name], metric_BU[order_B], f"metric {name!r} in another order", 1e-6)


@law("loss")
def extreme_ratios_stay_finite(loss: Loss, case: Case) -> None:
    """Log-ratios of 10,000 nats, either way, leave loss, gradient and metrics finite in float32."""
    at = step(loss, case)
    far_BU, away_BU = (
        case.among(f"size {whose}", (1e2, 1e3, 1e4))
        * (case.integers(f"sign {whose}", -1, 1, *at.old_BU.shape))
        for whose in ("new", "reference")
    )
    old_BU = at.old_BU.float()
    leaf_BU = (old_BU + far_BU).requires_grad_()
    scalar, metrics = value(
        loss, leaf_BU, old_BU, at.advantage_BU, at.units, reference_BU=old_BU + away_BU
    )
    require(scalar.isfinite(), f"the loss is {scalar}")
    if scalar.requires_grad:
        (grad_BU,) = torch.autograd.grad(scalar, leaf_BU, allow_unused=True)
        require(grad_BU is None or grad_BU.isfinite().all(), f"the gradient is {grad_BU}")
    for name, metric_BU in metrics.items():
        require(metric_BU.isfinite().all(), f"metric {name!r} is {metric_BU}")


def _bounds(loss: Loss) -> tuple[float, float]:
    """Bounds of the ratio that the knobs of a loss state; 0 and infinity where there is none."""
    low, high = [0.0], [math.inf]
    if getattr(loss, "clip", True):
        low += [1 - loss.clip_low] if getattr(loss, "clip_low", None) is not None else []
        high += [1 + loss.clip_high] if getattr(loss, "clip_high", None) is not None else []
    if getattr(loss, "ratio_cap", None) is not None:
        high.append(loss.ratio_cap)
    if getattr(loss, "log_ratio_clamp", None) is not None:
        low.append(math.exp(-loss.log_ratio_clamp))
        high.append(math.exp(loss.log_ratio_clamp))
    return max(low), min(high)


def _states_a_bound(loss: Loss) -> str | None:
    return None if _bounds(loss) != (0.0, math.inf) else "it states no bound of the ratio"


@law("loss", _states_a_bound)
def a_clip_acts_at_its_bound(loss: Loss, case: Case) -> None:
    """Past a bound of the ratio that it states, no further move changes the gradient."""
    plain = without_kl(loss)
    low, high = _bounds(plain)
    inside = (low + high) / 2 if high < math.inf else low + 1
    facts = in_a_run(inputs.units(2, 1, group_size=2, canvas=1), case)

    def pull(log_ratio: float, sign: float) -> float:
        """Gradient of a sample whose ratio is given; that of the other one is 1."""
        old_BU = -case.uniform("old", 2, 1, low=0.1, high=4.0).double()
        new_BU = old_BU + torch.tensor([[log_ratio], [0.0]])
        advantage_BU = torch.tensor([[sign], [-sign]])
        return float(gradient(plain, new_BU, old_BU, advantage_BU, facts)[1][0])

    for bound, sign in ((high, 1.0), (low, -1.0)):
        if bound in (0.0, math.inf):
            continue
        past = [pull(math.log(bound) + sign * step, sign) for step in (1e-3, 0.5, 5.0)]
        held = all(math.isclose(past[0], each, rel_tol=1e-6, abs_tol=1e-9) for each in past)
        require(held, f"past the ratio {bound:.6g} the gradient goes on to change: {past}")
        free = pull(math.log(inside), sign)
        moves = high - low < 1e-9 or not math.isclose(free, past[0], rel_tol=1e-6)
        require(moves, f"the gradient is {free:.6g} inside and past the bound {bound:.6g} alike")


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
    facts = in_a_run(inputs.units(1), case)
    far, near = _kl_of(loss, logit_V, other_V, facts), _kl_of(loss, logit_V, logit_V, facts)
    same(near, torch.zeros_like(near), "KL of equal policies", 1e-9)
    if loss.kl != "k1":
        require((far >= 0).all(), f"a KL estimate below 0: {far.tolist()}")
    mean = float((logit_V.softmax(0) * far).sum())
    require(mean > 0, f"mean KL {mean:.3g} of different policies")


def _kl_of(loss: Loss, new_V: Tensor, reference_V: Tensor, facts: Units) -> Tensor:
    """The loss of each outcome with advantage 0: its KL, in one unit of one token."""
    new_V, reference_V = new_V.log_softmax(0), reference_V.log_softmax(0)
    exact = (new_V.exp() * (new_V - reference_V)).sum()
    values = []
    for new, anchor in zip(new_V, reference_V, strict=True):
        scalar, _ = value(
            loss, new.view(1, 1), anchor.view(1, 1), torch.zeros(1, 1), facts,
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
