"""One optimiser update: the loss on the log-probs as leaf, then a replay of the views in chunks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dllmzoo.errors import HealthError
from dllmzoo.models._sharded import is_sharded, whole
from dllmzoo.records import Estimate, Experience, Key, Rollout, Units, Views, take
from dllmzoo.scoring import replay, score

if TYPE_CHECKING:
    from dllmzoo.training.meter import Meter
    from dllmzoo.training.method import Budget, Learner, Method


def update(
    method: Method, budget: Budget, learner: Learner, meter: Meter, seen: Experience, key: Key,
    rows: Tensor, *, fresh: bool,
) -> None:  # fmt: skip
    """Train the policy once on the given rows of a round's experience.

    Args:
        method: the parts.
        budget: micro-batch and gradient-norm limit.
        learner: networks and optimiser.
        meter: takes the metrics.
        seen: the round's experience, read only.
        key: of this optimiser step; its pass is the sweep over the round.
        rows: whole groups of it.
        fresh: no optimiser step since the old policy was scored, so new = old exactly where they
            share views; saves a forward.

    Raises:
        HealthError: the loss or the gradient is not finite; the policy is left as it was.
    """
    likelihood, loss, pass_ = method.likelihood, method.loss, key.pass_
    idle = len(rows) == 0  # another process holds all groups of this minibatch
    if idle:
        rows = rows.new_zeros(1)
    rollout = take(seen.rollout, rows)
    views, anchors = take(seen.views[pass_], rows), take(seen.anchor_views[pass_], rows)
    counted_B = seen.rewards.counted_X.to(rows.device)[rows]
    if rollout.branch_BT is not None:  # a shared step counts if any sharer does: A says which
        counted_B = torch.ones_like(counted_B)
    if idle:
        counted_B = torch.zeros_like(counted_B)
    views = replace(  # abstained: in no mean at all, and not scored
        views, weight_BU=views.weight_BU * counted_B.unsqueeze(1),
        score_BKL=views.score_BKL & counted_B[:, None, None],
    )  # fmt: skip
    advantage_BU = views.credit(seen.advantage_BA[rows])
    accelerator = learner.accelerator
    policy = accelerator.unwrap_model(learner.policy).train()
    mine = Units.totals_of(views, rollout, advantage_BU, counted_B)
    totals = meter.total(dict.fromkeys(mine, 0.0) if idle else mine)
    exact = learner.reference if loss.needs_exact_kl else None

    shared = seen.views[pass_] is seen.anchor_views[pass_]
    with meter.time("update"):
        kl_BKL = None
        if fresh and shared and exact is None:
            leaf_BKL = seen.old[pass_][rows].clone()
        else:
            new = score(policy, rollout, views, micro_batch=budget.micro_batch, reference=exact)
            leaf_BKL, kl_BKL = new.logprob_BKL, new.kl_BKL
            meter.scored(views, rollout, times=1 if exact is None else 2)
        leaf_BKL.requires_grad_()
        if kl_BKL is not None:
            kl_BKL.requires_grad_()
        estimate = likelihood.pool(leaf_BKL, views, rollout, advantage_BU)
        if kl_BKL is not None:
            estimate = replace(estimate, exact_kl_BU=views.total(kl_BKL))

        def pool(logprobs: tuple[Tensor, ...]) -> Estimate | None:
            return _anchor(method, logprobs, pass_, rows, anchors, rollout, advantage_BU)

        units = Units.of(views, rollout, totals, key=key)
        value, details = loss(
            estimate, pool(seen.old) if loss.needs_old else None, pool(seen.reference),
            advantage_BU, units,
        )  # fmt: skip
        grad_BKL, kl_grad_BKL = _gradients(value, leaf_BKL, kl_BKL)
        worth = float(accelerator.num_processes)  # gradients are averaged, the loss is a sum
        replay(
            learner.policy, rollout, views, grad_BKL * worth, micro_batch=budget.micro_batch,
            kl_grad_BKL=None if kl_grad_BKL is None else kl_grad_BKL * worth, reference=exact,
            accelerator=accelerator,
        )  # fmt: skip
        norm = step(learner, budget.max_grad_norm, float(meter.total({"loss": value})["loss"]))
    meter.scored(views, rollout, backward=True)
    if exact is not None:
        meter.scored(views, rollout)  # the reference, once more in the replay
    meter.update(value, norm, details, units)


def step(learner: Learner, max_grad_norm: float | None, loss: float) -> float:
    """Clip, check and apply the gradient; returns its norm before clipping.

    Raises:
        HealthError: the loss or the gradient is not finite; nothing is applied.
    """
    limit = math.inf if max_grad_norm is None else max_grad_norm
    if is_sharded(learner.policy):
        norm = float(whole(nn.utils.clip_grad_norm_(learner.policy.parameters(), limit)))
    else:
        norm = float(learner.accelerator.clip_grad_norm_(learner.policy.parameters(), limit))
    if not (math.isfinite(norm) and math.isfinite(loss)):
        learner.optimizer.zero_grad()
        raise HealthError(
            f"the loss is {loss} and the gradient norm {norm}: the update was not applied; "
            f"lower `optimizer.lr`, bound the ratio (`loss.clip_low`, `loss.clip_high`, "
            f"`loss.ratio_cap`) or use the loss `stable_drl`"
        )
    learner.optimizer.step()
    learner.optimizer.zero_grad()
    learner.scheduler.step()
    return norm


def _anchor(
    method: Method, logprobs: tuple[Tensor, ...], pass_: int, rows: Tensor, views: Views,
    rollout: Rollout, advantage_BU: Tensor,
) -> Estimate | None:  # fmt: skip
    """The pooled estimate of a fixed policy, or None if it was not scored."""
    if pass_ >= len(logprobs):
        return None
    with torch.no_grad():
        return method.likelihood.pool(logprobs[pass_][rows], views, rollout, advantage_BU)


def _gradients(
    value: Tensor, leaf_BKL: Tensor, kl_BKL: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Gradient of the loss at the log-probs (and exact KLs); 0 where it does not depend on them."""
    if not value.requires_grad:
        return torch.zeros_like(leaf_BKL), None if kl_BKL is None else torch.zeros_like(kl_BKL)
    value.backward()
    zero = torch.zeros_like(leaf_BKL)
    return (
        zero if leaf_BKL.grad is None else leaf_BKL.grad,
        None if kl_BKL is None else (zero if kl_BKL.grad is None else kl_BKL.grad),
    )
