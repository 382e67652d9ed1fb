"""Bias, variance and error of repeated estimates."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dllmzoo.lab.estimators.results import Errors, Gradient

ROUNDING = 2e-5
"""Nats that float32 log-probs may be off."""
OFTEN = 16
"""Rows from which on an answer's own bias is told."""


def errors(
    estimate_B: Tensor, truth_X: Tensor, index_B: Tensor, *, truth_se: float = 0.0
) -> Errors:
    """Errors of estimates of rows, each of the truth of its answer.

    Args:
        estimate_B: one estimate a row.
        truth_X: the truth of each answer.
        index_B: the answer of each row; rows weigh alike, so answers count by their share.
        truth_se: standard error of the mean truth.
    """
    gap_B = estimate_B.double() - truth_X[index_B]
    B, X = len(gap_B), len(truth_X)
    count_X = torch.bincount(index_B, minlength=X).double()
    mean_X = gap_B.new_zeros(X).index_add(0, index_B, gap_B) / count_X.clamp(min=1)
    inner_X = gap_B.new_zeros(X).index_add(0, index_B, (gap_B - mean_X[index_B]).square())
    variance_X = inner_X / (count_X - 1).clamp(min=1)
    variance = _mean(variance_X, count_X, count_X > 1)
    bias, bias_se = float(gap_B.mean()), math.hypot(math.sqrt(variance / B), truth_se)

    often_X = count_X >= OFTEN
    square = _mean(mean_X.square() - variance_X / count_X.clamp(min=1), count_X, often_X)
    often = max(float(count_X[often_X].sum()), 1.0)
    chance = float((2 * variance_X[often_X].square()).sum().sqrt()) / often
    told = bool(often_X.any())
    square = square if told else bias**2
    limit = 6 * chance + 16 * truth_se**2 * X + ROUNDING**2
    return Errors(
        bias=bias,
        bias_se=bias_se,
        answer_bias=math.sqrt(max(square, 0.0)),
        std=math.sqrt(variance),
        rmse=math.sqrt(float(gap_B.square().mean())),
        biased=abs(bias) > 4 * bias_se + ROUNDING or (told and square > limit),
    )


def _mean(value_X: Tensor, count_X: Tensor, among_X: Tensor) -> float:
    """Mean over rows of the answers in question; 0 if there are none."""
    weight_X = count_X * among_X
    return float((value_X * weight_X).sum() / weight_X.sum().clamp(min=1))


def gradient_errors(estimates: Tensor, controls: Tensor, exact: Tensor) -> Gradient:
    """Errors of gradient estimates.

    The bias is measured against what each estimate would be with the exact gradients of its own
    answers, so that the draw of answers does not blur it.

    Args:
        estimates: one estimate a row, (estimates, parameters).
        controls: the same estimates with exact gradients; their expectation is `exact`.
        exact: the exact gradient, not 0.
    """
    count, norm = len(estimates), float(exact.norm())
    gap = estimates - controls
    chance = float(gap.var(0).sum()) / count
    off = gap.mean(0)
    mean = exact + off
    along = float(mean @ exact) / norm
    length = math.sqrt(max(float(mean.square().sum()) - chance, along**2))
    cosines = torch.nn.functional.cosine_similarity(estimates, exact.unsqueeze(0))
    return Gradient(
        cosine_of_mean=along / length if length > 0 else 0.0,
        scale=along / norm,
        bias=math.sqrt(max(float(off.square().sum()) - chance, 0.0)) / norm,
        resolution=math.sqrt(chance) / norm,
        std=math.sqrt(float(estimates.var(0).sum())) / norm,
        error=math.sqrt(float((estimates - exact).square().sum(1).mean())) / norm,
        cosine=float(cosines.mean()),
        cosine_se=float(cosines.std()) / math.sqrt(count),
    )
