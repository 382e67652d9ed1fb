"""A lower and an upper bound of an answer's log-prob from the same masked views."""

import math

import torch
from torch import Tensor

from dllmzoo.likelihoods._masks import BlockChoice, MaskLaw, masks
from dllmzoo.likelihoods._plan import precise, sequence_views
from dllmzoo.records import Key, Rollout, Views

SHARE_FLOOR = 1e-8
"""Least share of its valid tokens that a view counts as hidden."""


def plan_bounds(
    kind: MaskLaw, key: Key, rollout: Rollout, views: int, *, block_length: int | None,
    prefix_noise: float | None, block_choice: BlockChoice, score_block_only: bool,
    temperature: float | None,
) -> Views:  # fmt: skip
    """K views under a mask law, weighted for the lower bound; `prefix_noise` None = the law's."""
    noise = default_noise(kind) if prefix_noise is None else prefix_noise
    hide_BKL, score_BKL = masks(
        kind, key, rollout, views, block_length=block_length, prefix_noise=noise,
        block_choice=block_choice, score_block_only=score_block_only,
    )  # fmt: skip
    return bound_views(hide_BKL, score_BKL, rollout, temperature or rollout.temperature)


def default_noise(kind: MaskLaw) -> float:
    """Probability that a slot before the block is hidden: none where the mean is to be an ELBO."""
    return 0.0 if kind == "random" else 0.15


def bound_views(hide_BKL: Tensor, score_BKL: Tensor, rollout: Rollout, temperature: float) -> Views:
    """Views of one unit, the sequence, whose weighted sum is the lower bound E in total nats.

    A slot of view k weighs n / (K m_k), m_k being the slots that the view scores: n times the
    mean over views of the mean over slots. A view that scores nothing counts as 0.
    """
    length_B = rollout.length_B
    count_BK1 = score_BKL.sum(2, keepdim=True).clamp(min=1)
    number = count_BK1.to(precise(count_BK1.device)) * score_BKL.shape[1]
    weight_BK1 = length_B[:, None, None] / number
    return sequence_views(hide_BKL, score_BKL, weight_BK1, length_B, temperature)


def upper_bound(logprob_BKL: Tensor, views: Views, exponent: float) -> Tensor:
    r"""The upper bound U in total nats, (B, 1); differentiable, pooled in log space.

    $$ U = \frac{n}{b}\ \underset{i:\ u_i > 0}{\mathrm{mean}} \log u_i, \qquad
       u_i = \frac1K \sum_k 1[i \in H_k]\ \frac{p_{ik}^{\,b}}{m_k / n} $$
    """
    score_BKL = views.score_BKL
    length_B1 = views.size_BU[:, :1].to(logprob_BKL.dtype)
    share_BK = (score_BKL.sum(2) / length_B1.clamp(min=1)).clamp(min=SHARE_FLOOR)
    power_BKL = exponent * logprob_BKL - share_BK.log().unsqueeze(2)
    hit_BL = score_BKL.any(1)
    # a slot that no view scores gets a number, so that its gradient is 0 and not NaN
    power_BKL = power_BKL.masked_fill(~score_BKL & hit_BL.unsqueeze(1), -torch.inf)
    log_u_BL = power_BKL.logsumexp(1) - math.log(score_BKL.shape[1])
    sum_B1 = torch.where(hit_BL, log_u_BL, 0).sum(1, keepdim=True)
    mean_B1 = sum_B1 / hit_BL.sum(1, keepdim=True).clamp(min=1)
    return mean_B1 * length_B1 / exponent
