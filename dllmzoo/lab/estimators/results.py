"""What the estimator lab finds: records, and the same as plain data for JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from dllmzoo.lab.estimators.options import Options

FORMAT = 1
"""Of the JSON; raised when a field changes its meaning or goes away."""

Reads = Literal["ELBO", "log-likelihood", "both", "neither"]


@dataclass(frozen=True)
class Errors:
    """How estimates differ from a truth; all in the estimate's own unit.

    Args:
        bias: mean error over answers and masks.
        bias_se: its standard error, of masks and of the truth.
        answer_bias: root mean square over answers of each one's bias, chance taken out.
        std: root mean square over answers of the spread between masks.
        rmse: root mean square error; its square is about answer_bias^2 + std^2.
        biased: whether the mean bias or that of single answers is more than chance makes it.
    """

    bias: float
    bias_se: float
    answer_bias: float
    std: float
    rmse: float
    biased: bool


@dataclass(frozen=True)
class Value:
    """Errors of log-likelihood estimates.

    Args:
        advantage: `any`, or the sign for which a pool gives this estimate.
        loglikelihood: errors against the log-likelihood, nats.
        elbo: errors against the ELBO, nats.
        estimates: which of the two it estimates without bias.
    """

    advantage: Literal["any", "positive", "negative"]
    loglikelihood: Errors
    elbo: Errors
    estimates: Reads


@dataclass(frozen=True)
class Ratio:
    """Errors of importance ratios of whole answers.

    Args:
        masks: `shared`, new and old policy score the same views; `own`, each its own.
        log: errors of the log-ratio, nats.
        ratio: errors of its exponential.
    """

    masks: Literal["shared", "own"]
    log: Errors
    ratio: Errors


@dataclass(frozen=True)
class Gradient:
    """Errors of the policy gradient; lengths are relative to that of the exact one.

    Args:
        cosine_of_mean: between the expected estimate and the exact gradient.
        scale: the expected estimate's length along the exact gradient; 1 is right.
        bias: length of expected estimate minus exact gradient, chance taken out.
        resolution: what chance alone makes of `bias`; a smaller bias cannot be told from 0.
        std: spread of single estimates round the expected one.
        error: root mean square length of single estimate minus exact gradient.
        cosine: mean cosine between a single estimate and the exact gradient.
        cosine_se: its standard error.
    """

    cosine_of_mean: float
    scale: float
    bias: float
    resolution: float
    std: float
    error: float
    cosine: float
    cosine_se: float


@dataclass(frozen=True)
class Point:
    """One estimator at one number of forwards.

    Args:
        name: likelihood, as registered.
        label: with its settings and selector.
        settings: every option of the likelihood.
        selector: name and options of the selector, or None.
        forwards: views that score something, mean over rows.
        values: one entry, or one for each sign of the advantage where the pool depends on it.
        ratios: for shared masks, and for masks of its own where masks are random.
        gradient: None where the exact gradient is not known or was not asked for.
    """

    name: str
    label: str
    settings: dict[str, Any]
    selector: dict[str, Any] | None
    forwards: float
    values: tuple[Value, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    gradient: Gradient | None = None


@dataclass(frozen=True)
class Selected:
    """The part of the policy gradient that a selector keeps; lengths relative to the whole.

    Args:
        selector: name and settings; `best fixed steps` is the set of steps, the same for every
            trajectory, of least error.
        steps: the steps of a fixed set; None where each trajectory has its own.
        kept: steps kept of a trajectory, mean.
        error: length of the expected sum over the steps left out.
        resolution: what chance alone makes of `error`; 0 where nothing is random.
        bound: 2 max|A| max|grad logit| times the mean entropy of the steps left out; None where
            terms have weights other than 0 and 1.
        surprisal_bound: the same with the mean surprisal (minus log-prob) in place of entropy.
        cosine: between the kept part and the whole.
        std: spread of one trajectory's term; None where there are too many trajectories.
        batch_cosine: between the whole and the mean of `group` trajectories' terms, about: the
            lengths of expectation and spread put together; None without `std`.
    """

    selector: str
    steps: tuple[int, ...] | None
    kept: float
    error: float
    resolution: float
    bound: float | None
    surprisal_bound: float | None
    cosine: float
    std: float | None
    batch_cosine: float | None


@dataclass(frozen=True)
class Skipped:
    """An estimator or a part of the lab that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Result:
    """One run of the lab.

    Args:
        options: as asked for.
        title: of the world.
        notes: about its truths.
        slots: N, slots that are generated.
        answers: X.
        loglikelihood: mean exact log-likelihood of the answers, nats.
        elbo: mean exact ELBO, nats.
        gradient_norm: length of the exact policy gradient; None where it is not known.
        exact_score: errors of gradient estimates that know the exact log-likelihood; only the
            draw of answers is random in them.
        points: sorted by forwards.
        selection: sorted by selector and kept steps.
        skipped: what was left out.
        seconds: wall-clock time.
    """

    options: Options
    title: str
    notes: tuple[str, ...]
    slots: int
    answers: int
    loglikelihood: float
    elbo: float
    gradient_norm: float | None
    exact_score: Gradient | None
    points: tuple[Point, ...]
    selection: tuple[Selected, ...]
    skipped: tuple[Skipped, ...]
    seconds: float


def plain(result: Result) -> dict[str, Any]:
    """The result as data that JSON can hold; numbers that are not finite become None."""
    from dllmzoo import __version__

    return {"format": FORMAT, "dllmzoo": __version__, **_plain(result)}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)
