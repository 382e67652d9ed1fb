"""The linear pool: a unit's log-prob is the weighted sum of its slots' log-probs."""

from torch import Tensor

from dllmzoo.records import Estimate, Views


def linear_pool(logprob_BKL: Tensor, views: Views) -> Estimate:
    """Total nats of each unit, as precise as the log-probs; score and ratio are one tensor."""
    total_BU = views.total(views.weight_BKL.to(logprob_BKL.dtype) * logprob_BKL)
    return Estimate(score_BU=total_BU, ratio_BU=total_BU)
