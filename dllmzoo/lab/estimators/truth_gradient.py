"""The exact policy gradient, and the exact part of it that a given set of answers stands for."""

from __future__ import annotations

import torch
from torch import Tensor

from dllmzoo.lab.estimators.lattice import Lattice, loglikelihood, revealed
from dllmzoo.lab.estimators.reader import Reading, pull_back, reading
from dllmzoo.lab.estimators.world import World
from dllmzoo.records import Rollout, Views


def exact_gradient(world: World) -> Tensor:
    """Gradient of the expected reward in the old policy's parameters, flat float64.

    The sum over all answers of probability * advantage * gradient of the exact log-likelihood.
    """
    found, grad_XKL = likelihood_gradient(world)
    weight_X = world.prob_X * world.advantage_X
    one = torch.zeros(len(weight_X), dtype=torch.long)
    grads = pull_back(
        world.old, found, grad_XKL * weight_X.view(-1, 1, 1), one, 1, world.micro_batch
    )
    return next(grads)


def exact_estimates(world: World, weight: Tensor) -> Tensor:
    """Sums over answers of weight * gradient of the exact log-likelihood, one row an estimate.

    Args:
        world: where every answer is enumerated.
        weight: of each answer in each estimate, (estimates, X).
    """
    found, grad_XKL = likelihood_gradient(world)
    used_X = (weight != 0).any(0)
    grad_XKL = grad_XKL * used_X.view(-1, 1, 1)
    each = torch.arange(len(used_X))
    grads = pull_back(world.old, found, grad_XKL, each, len(each), world.micro_batch)
    out = torch.zeros(0)
    for x, grad in enumerate(grads):
        if not out.numel():
            out = grad.new_zeros(len(weight), len(grad))
        if used_X[x]:
            out.addr_(weight[:, x].to(grad.dtype), grad)
    return out


def likelihood_gradient(world: World) -> tuple[Reading, Tensor]:
    """Views of all states of all answers, and the log-likelihood's gradient at their log-probs."""
    truth = world.old_truth
    assert isinstance(truth, Lattice), "only enumerated answers have an exact gradient"
    leaf_XRN = truth.logprob_XRN.clone().requires_grad_()
    (grad_XRN,) = torch.autograd.grad(loglikelihood(leaf_XRN)[:, -1].sum(), leaf_XRN)
    rollout, views = every_state(world)
    grad_XKL = torch.zeros(views.score_BKL.shape, dtype=torch.float64)
    grad_XKL[..., world.open_L] = grad_XRN
    return reading(rollout, views, world.old.mask_id), grad_XKL


def every_state(world: World) -> tuple[Rollout, Views]:
    """A row for each answer, a view for each set of revealed slots, hidden slots scored."""
    X, N = len(world.tokens_XL), world.slots
    index_B = torch.arange(X)
    order_BN = torch.arange(N).expand(X, N)
    assert isinstance(world.old_truth, Lattice)
    rollout = world.rollout(world.old_truth.along(index_B, order_BN))
    hidden_RN = ~revealed(N)
    hide_BKL = torch.zeros(X, len(hidden_RN), rollout.tokens_BL.shape[1], dtype=torch.bool)
    hide_BKL[..., world.open_L] = hidden_RN
    zero_BKL = torch.zeros_like(hide_BKL, dtype=torch.long)
    one_BU = torch.ones(X, 1)
    views = Views(
        hide_BKL, hide_BKL, one_BU.unsqueeze(2).expand(hide_BKL.shape), zero_BKL, one_BU, one_BU,
        torch.zeros(X, 1, dtype=torch.long),
    )  # fmt: skip
    return rollout, views
