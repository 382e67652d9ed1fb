"""Every measurement of one estimator at one number of forwards."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dllmzoo.lab.estimators.bench import Bench
from dllmzoo.lab.estimators.reader import logprobs, pull_back
from dllmzoo.lab.estimators.results import Point, Ratio, Reads, Value
from dllmzoo.lab.estimators.statistics import errors, gradient_errors
from dllmzoo.lab.estimators.trial import (
    Estimator,
    Planned,
    plans,
    pooled,
    score_gradient,
    settings_of,
    total,
)


def measure(bench: Bench, estimator: Estimator) -> Point:
    """All that was asked for of one estimator.

    Raises:
        CannotMeasure: it cannot score the lab's answers.
    """
    wanted, world = bench.options.measures, bench.world
    rollout, advantage_B = bench.rollout, bench.advantage_B
    slopes = "gradients" in wanted and bench.gradient is not None
    sums = _Sums(bench, estimator) if slopes else None
    parts: dict[str, list[Tensor]] = {}

    def keep(name: str, value_B: Tensor) -> None:
        parts.setdefault(name, []).append(value_B)

    for planned in plans(world, estimator, rollout, advantage_B, bench.key("views")):
        for name, sign in (("positive", 1.0), ("negative", -1.0)):
            scored = pooled(estimator, planned, planned.old_BKL, sign)
            keep(name, total(estimator, scored.score_BU, planned.views))
        keep("forwards", planned.views.score_BKL.any(2).sum(1).double())
        if "ratios" in wanted:
            new_BKL = logprobs(world.new, planned.found, world.micro_batch)
            keep("old", _ratio_total(estimator, planned, planned.old_BKL))
            keep("new", _ratio_total(estimator, planned, new_BKL))
        if sums is not None:
            sums.add(planned)
    if "ratios" in wanted and has_own_masks(estimator):
        for planned in plans(world, estimator, rollout, advantage_B, bench.key("old_views")):
            keep("own", _ratio_total(estimator, planned, planned.old_BKL))
    found = {name: torch.cat(each) for name, each in parts.items()}
    values = values_of(bench, found) if "values" in wanted else ()
    ratios = ratios_of(bench, found) if "ratios" in wanted else ()
    return Point(
        estimator.name, estimator.label, settings_of(estimator.likelihood),
        None if estimator.selector is None else settings_of(estimator.selector),
        float(found["forwards"].mean()), values, ratios,
        None if sums is None else sums.errors(),
    )  # fmt: skip


def has_own_masks(estimator: Estimator) -> bool:
    """Whether old and new policy may score different masks of this estimator."""
    return estimator.likelihood.random and not hasattr(estimator.likelihood, "refine")


def values_of(bench: Bench, found: dict[str, Tensor]) -> tuple[Value, ...]:
    """Errors of the log-likelihood, apart for each sign of the advantage if the pool tells them."""
    up_B, down_B = found["positive"], found["negative"]
    if torch.equal(up_B, down_B):
        return (value_of(bench, up_B, "any"),)
    return value_of(bench, up_B, "positive"), value_of(bench, down_B, "negative")


def value_of(bench: Bench, estimate_B: Tensor, advantage: Any) -> Value:
    """Errors of one estimate against log-likelihood and ELBO, and which of them it estimates."""
    truth, index_B = bench.world.old_truth, bench.index_B
    first, second = (
        errors(estimate_B, truth_X, index_B, truth_se=se)
        for truth_X, se in zip((truth.loglikelihood_X, truth.elbo_X), truth.errors, strict=True)
    )
    reads: dict[tuple[bool, bool], Reads] = {
        (True, True): "both",
        (True, False): "log-likelihood",
        (False, True): "ELBO",
        (False, False): "neither",
    }
    return Value(advantage, first, second, reads[not first.biased, not second.biased])


def ratios_of(bench: Bench, found: dict[str, Tensor]) -> tuple[Ratio, ...]:
    """Errors of importance ratios, with shared masks and, if there are any, with own ones."""
    new, old = bench.world.new_truth, bench.world.old_truth
    log_X = new.loglikelihood_X - old.loglikelihood_X
    se = max(new.errors[0], old.errors[0])
    made = []
    for masks, before in (("shared", "old"), ("own", "own")):
        if before in found:
            log_B = (found["new"] - found[before]).double()
            made.append(
                Ratio(
                    masks,  # type: ignore[arg-type]
                    errors(log_B, log_X, bench.index_B, truth_se=se),
                    errors(log_B.exp(), log_X.exp(), bench.index_B, truth_se=se),
                )
            )
    return tuple(made)


def _ratio_total(estimator: Estimator, planned: Planned, logprob_BKL: Tensor) -> Tensor:
    return total(estimator, pooled(estimator, planned, logprob_BKL, 1.0).ratio_BU, planned.views)


class _Sums:
    """Gradient estimates in the making: one row each."""

    def __init__(self, bench: Bench, estimator: Estimator) -> None:
        self.bench, self.estimator = bench, estimator
        self.made = torch.zeros(0)

    def add(self, planned: Planned) -> None:
        """Add the rows of a plan to the estimates that they belong to."""
        bench, rows = self.bench, planned.rows
        estimate_B = rows // bench.group
        share_B = (estimate_B < bench.estimates).double() / bench.group
        grad_BKL = score_gradient(self.estimator, planned, bench.advantage_B[rows])
        grads = pull_back(
            bench.world.old, planned.found, grad_BKL * share_B.view(-1, 1, 1),
            estimate_B.clamp(max=bench.estimates - 1), bench.estimates, bench.world.micro_batch,
        )  # fmt: skip
        made = torch.stack(list(grads))
        self.made = self.made + made if self.made.numel() else made

    def errors(self) -> Any:
        """Against the exact gradient."""
        assert self.bench.gradient is not None
        return gradient_errors(self.made, self.bench.controls, self.bench.gradient)
