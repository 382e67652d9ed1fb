"""Laws of likelihoods: plans of views, and what their log-probs are pooled to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs, trajectories, truths  # noqa: F401, which holds more laws
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import (
    Report,
    check,
    law,
    require,
    same,
    untouched_global_generator,
)
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.laws.planned import (
    FIELDS,
    OPTIONAL,
    Likelihood,
    Planned,
    equal_views,
    many_rows,
    mean_is,
    plan,
    planned,
    some_steps,
    suited,
)
from dllmzoo.records import take
from dllmzoo.scoring import score


def check_likelihood(part: Any, *, cases: int = 20, seed: int = 0) -> Report:
    """Hold a likelihood (a class or an instance) to every law of likelihoods; see `law.check`."""
    return check("likelihood", part, cases=cases, seed=seed)


@law("likelihood")
def well_formed(likelihood: Likelihood, case: Case) -> None:
    """Views hide and score real slots only, each scored slot feeds a unit, sizes are positive."""
    done = planned(likelihood, case)
    views, rollout = done.views, done.rollout
    B, L = rollout.tokens_BL.shape
    K, U = views.score_BKL.shape[1], views.size_BU.shape[1]
    for name in FIELDS:
        shape = (B, K, L) if name.endswith("BKL") else (B, U)
        found = tuple(getattr(views, name).shape)
        require(found == shape, f"{name} has shape {found}, expected {shape}")
    for name in OPTIONAL:
        if getattr(views, name) is not None:
            shape, found = (B, K, L) if name.endswith("BKL") else (B, U), getattr(views, name).shape
            require(tuple(found) == shape, f"{name} has shape {tuple(found)}, expected {shape}")
    real_BKL = rollout.attend_BL.unsqueeze(1)
    require(not (views.hide_BKL & ~real_BKL).any(), "padding is hidden")
    answer_BKL = rollout.answer_BL.unsqueeze(1)
    require(not (views.score_BKL & ~answer_BKL).any(), "a slot outside the answer is scored")
    require(not (views.score_BKL & ~views.hide_BKL).any(), "a slot is scored in plain sight")
    unit = views.unit_BKL[views.score_BKL]
    require(((unit >= 0) & (unit < U)).all(), f"units outside [0, {U})")
    require((views.size_BU[views.live_BU] > 0).all(), "a live unit stands for no token")
    require((views.weight_BU >= 0).all() and views.weight_BKL.isfinite().all(), "weights")
    require(views.temperature > 0, f"temperature {views.temperature}")
    columns = 1 if done.steps is None else done.steps.start_BK.shape[1]
    column = views.column_BU[views.live_BU]
    require(((column >= 0) & (column < columns)).all(), f"columns outside [0, {columns})")
    limit = likelihood.num_forwards
    require(limit is None or limit >= K, f"{K} views, but num_forwards says {limit}")
    draws = getattr(likelihood, "num_draws", 1)
    require(draws >= 1 and K % draws == 0, f"{draws} draws cannot share {K} views evenly")


@law("likelihood")
def total_nats(likelihood: Likelihood, case: Case) -> None:
    """An estimate is in total nats: if each token has -1 nat, a unit of n tokens has mean -n."""
    rows = 60 + 40 * case.size
    done = many_rows(likelihood, case, rows)
    logprob_BKL = -done.views.score_BKL.float()
    found = likelihood.pool(logprob_BKL, done.views, done.rollout, done.ones_BU())
    counts_BU = done.views.live_BU
    if likelihood.unit in ("sequence", "view"):
        counts_BU = done.views.size_BU > 0  # a mask that hides nothing counts as 0 nats
    for name in ("score_BU", "ratio_BU"):
        share = (getattr(found, name) / done.views.size_BU.clamp(min=1))[counts_BU].double()
        mean_is(share, -1.0, f"nats per token of {name}")


@law("likelihood")
def not_positive(likelihood: Likelihood, case: Case) -> None:
    """The log-prob of a unit is at most 0, whatever the log-probs of its slots."""
    done = planned(likelihood, case)
    scale = case.among("scale", (0.01, 1.0, 20.0))
    logprob_BKL = -case.uniform("logprob", *done.views.score_BKL.shape, high=scale)
    logprob_BKL = torch.where(done.views.score_BKL, logprob_BKL, 0)
    for sign in (1.0, -1.0):
        found = likelihood.pool(logprob_BKL, done.views, done.rollout, sign * done.ones_BU())
        for name in ("score_BU", "ratio_BU"):
            top = getattr(found, name).max()
            require(top <= 1e-6, f"{name} reaches {top.item():.6g} for advantages of sign {sign}")


@law("likelihood")
def batch_invariant(likelihood: Likelihood, case: Case) -> None:
    """A row's views and estimate do not depend on the other rows or on the order of rows."""
    done = planned(likelihood, case)
    order = case.order("rows", len(done.rollout.tokens_BL))
    rows = order[: case.integer("kept rows", 1, len(order))]
    expected = done.rows(rows)
    found = plan(likelihood, expected.rollout, expected.steps, case)
    for name in FIELDS[3:]:
        same(getattr(found.views, name), getattr(expected.views, name), f"{name} of some rows")
    equal_views(found.views, expected.views, f"of rows {rows.tolist()}")
    logprob_BKL = -case.uniform("logprob", *done.views.score_BKL.shape) * done.views.score_BKL
    advantage_BU = case.normal("advantage", *done.views.size_BU.shape)
    whole = likelihood.pool(logprob_BKL, done.views, done.rollout, advantage_BU)
    part = likelihood.pool(logprob_BKL[rows], found.views, found.rollout, advantage_BU[rows])
    same(part.score_BU, whole.score_BU[rows], "score of some rows", 1e-6)
    same(part.ratio_BU, whole.ratio_BU[rows], "ratio of some rows", 1e-6)


@law("likelihood")
def padding_invariant(likelihood: Likelihood, case: Case) -> None:
    """More padding on the left moves a row's views and changes nothing else."""
    done = planned(likelihood, case)
    columns = case.integer("columns", 1, 4)
    found = plan(likelihood, inputs.padded(done.rollout, columns), done.steps, case)
    equal_views(found.views, done.views, f"behind {columns} columns of padding", columns)


@law("likelihood")
def passes(likelihood: Likelihood, case: Case) -> None:
    """A plan follows from its key; if the likelihood is not random, every pass has the same."""
    first = planned(likelihood, case)
    for pass_ in (0, 2) if not likelihood.random else (0,):
        again = plan(likelihood, first.rollout, first.steps, case, pass_)
        equal_views(again.views, first.views, f"of pass {pass_}")


@law("likelihood")
def keyed_randomness(likelihood: Likelihood, case: Case) -> None:
    """Planning and pooling do not touch the global generator."""
    with untouched_global_generator():
        done = planned(likelihood, case)
        zero_BKL = torch.zeros(done.views.score_BKL.shape)
        likelihood.pool(zero_BKL, done.views, done.rollout, done.ones_BU())


@law("likelihood")
def gradient_only_where_scored(likelihood: Likelihood, case: Case) -> None:
    """The score is differentiable, and depends on log-probs of scored slots only."""
    done = planned(likelihood, case)
    scored_BKL = done.views.score_BKL
    leaf_BKL = -case.uniform("logprob", *scored_BKL.shape, low=0.1) * scored_BKL
    leaf_BKL.requires_grad_()
    for sign in (-1.0, 1.0):
        found = likelihood.pool(leaf_BKL, done.views, done.rollout, sign * done.ones_BU())
        (grad_BKL,) = torch.autograd.grad(found.score_BU.sum(), leaf_BKL)
        require(grad_BKL.isfinite().all(), "the gradient is not finite")
        require(not grad_BKL[~scored_BKL].any(), "a slot that is not scored has a gradient")
    fed_BK = scored_BKL.any(2)
    require((grad_BKL.abs().sum(2)[fed_BK] > 0).all(), "a view that is scored has no gradient")


@law("likelihood")
def only_log_probs_carry_gradient(likelihood: Likelihood, case: Case) -> None:
    """Without gradient in the log-probs an estimate has none, whatever the advantages carry."""
    done = planned(likelihood, case)
    logprob_BKL = -case.uniform("logprob", *done.views.score_BKL.shape) * done.views.score_BKL
    advantage_BU = case.normal("advantage", *done.views.size_BU.shape).requires_grad_()
    found = likelihood.pool(logprob_BKL, done.views, done.rollout, advantage_BU)
    for name in ("score_BU", "ratio_BU"):
        require(not getattr(found, name).requires_grad, f"{name} carries gradient of its own")


@law("likelihood")
def given_slots_stand(likelihood: Likelihood, case: Case) -> None:
    """Slots of the answer that were given with the prompt are never hidden or scored."""
    rollout = suited(likelihood, trajectories.with_given_slots(inputs.rollout(case), case), case)
    views = plan(likelihood, rollout, some_steps(rollout, case), case).views
    N = rollout.sampler.answer_length
    given_BKN = ~rollout.answer_BL[:, None, -N:]
    require(not (views.hide_BKL[..., -N:] & given_BKN).any(), "a given slot is hidden")
    require(not (views.score_BKL[..., -N:] & given_BKN).any(), "a given slot is scored")


def _has_temperature(likelihood: Likelihood) -> str | None:
    return None if hasattr(likelihood, "temperature") else "it has no temperature to be set"


@law("likelihood", _has_temperature)
def temperature(likelihood: Likelihood, case: Case) -> None:
    """Log-probs have the temperature that the likelihood is given, or else the rollout's."""
    done = planned(likelihood, case)
    expected = likelihood.temperature or done.rollout.temperature
    require(
        done.views.temperature == expected,
        f"temperature {done.views.temperature}, expected {expected}",
    )


def _draws(likelihood: Likelihood) -> str | None:
    if getattr(likelihood, "num_draws", 1) > 1:
        return None
    return "it has no independent draws to measure its spread by"


@law("likelihood", _draws)
def weights_give_the_ratio(likelihood: Likelihood, case: Case) -> None:
    """The ratio is the weighted sum of log-probs, so that its spread over draws can be measured."""
    done = planned(likelihood, case)
    logprob_BKL = -case.uniform("logprob", *done.views.score_BKL.shape) * done.views.score_BKL
    advantage_BU = case.normal("advantage", *done.views.size_BU.shape)
    found = likelihood.pool(logprob_BKL, done.views, done.rollout, advantage_BU)
    expected = done.views.total(done.views.weight_BKL * logprob_BKL)
    same(found.ratio_BU, expected, "ratio", 1e-5)


def _refines(likelihood: Likelihood) -> str | None:
    return None if hasattr(likelihood, "refine") else "it leaves its plans as they are"


@law("likelihood", _refines)
def refine_only_drops(likelihood: Likelihood, case: Case) -> None:
    """Refining a plan only drops scored slots and sets weights, which are constants >= 0."""
    done = planned(likelihood, case)
    old_BKL = _old(done, case).requires_grad_()
    found = likelihood.refine(done.views, old_BKL)
    require(not (found.score_BKL & ~done.views.score_BKL).any(), "refining scores a slot anew")
    for name in ("hide_BKL", "unit_BKL", "size_BU", "column_BU", *OPTIONAL):
        value, before = getattr(found, name), getattr(done.views, name)
        require((value is None) == (before is None), f"refining adds or removes {name}")
        if value is not None:
            same(value, before, f"{name} after refining")
    require(found.temperature == done.views.temperature, "refining changes the temperature")
    for name in ("weight_BU", "weight_BKL"):
        value = getattr(found, name)
        require(not value.requires_grad, f"{name} carries gradient of the old policy")
        require(value.isfinite().all() and (value >= 0).all(), f"{name} is negative or not finite")


@law("likelihood", _refines)
def refine_row_by_row(likelihood: Likelihood, case: Case) -> None:
    """What refining does to a row does not depend on the other rows or on their order."""
    done = planned(likelihood, case)
    old_BKL = _old(done, case)
    whole = likelihood.refine(done.views, old_BKL)
    order = case.order("rows", len(old_BKL))
    rows = order[: case.integer("kept rows", 1, len(order))]
    part, expected = likelihood.refine(take(done.views, rows), old_BKL[rows]), take(whole, rows)
    equal_views(part, expected, f"refined, of rows {rows.tolist()}")
    same(part.weight_BU, expected.weight_BU, "weight_BU refined, of some rows")


def _old(done: Planned, case: Case) -> Tensor:
    """Log-probs of an old policy, some of them very low."""
    scale = case.among("old scale", (0.5, 3.0, 200.0))
    old_BKL = -case.uniform("old", *done.views.score_BKL.shape, high=scale)
    return torch.where(done.views.score_BKL, old_BKL, 0)


def _shares(likelihood: Likelihood) -> str | None:
    if likelihood.shares_masks:
        return None
    return "old and new policy score masks of their own, so ratios differ from 1"


@law("likelihood", _shares)
def first_ratio_is_one(likelihood: Likelihood, case: Case) -> None:
    """Before any update every ratio is 1, however rows are split and views are batched."""
    done = planned(likelihood, case)
    policy = ToyDenoiser(case.seed, done.rollout.block_size, dtype=torch.float64)
    old = score(policy, done.rollout, done.views, micro_batch=case.among("old", (1, 3, 64)))
    rows = case.order("minibatch", len(done.rollout.tokens_BL))[: 1 + case.size]
    part = done.rows(rows)
    new = score(policy, part.rollout, part.views, micro_batch=case.among("new", (1, 2, 5, 64)))
    advantage_BU = case.normal("advantage", *part.views.size_BU.shape)
    before = likelihood.pool(old.logprob_BKL[rows], part.views, part.rollout, advantage_BU)
    after = likelihood.pool(new.logprob_BKL, part.views, part.rollout, advantage_BU)
    ratio_BU = (after.ratio_BU - before.ratio_BU).exp()
    same(ratio_BU, torch.ones_like(ratio_BU), "first ratio", 2e-6)
