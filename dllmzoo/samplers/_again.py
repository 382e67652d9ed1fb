"""What a policy says of tokens that were drawn, under the law that they were drawn from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dllmzoo.protocols import Policy
from dllmzoo.samplers._candidates import Law, at_token, without
from dllmzoo.samplers._filters import likeliest
from dllmzoo.samplers._noise import tempered


def law_of(sampler: Any, policy: Policy) -> Law:
    """The law of a sampler; of one of another make its temperature and nothing else."""
    if hasattr(sampler, "_law"):
        return sampler._law(policy)
    temperature = getattr(sampler, "temperature", 0.0)
    return Law(temperature, "none", policy.mask_id, tuple(policy.stop_ids))


def logprob_under(law: Law, logits_SV: Tensor, token_S: Tensor) -> Tensor:
    """logprob_S, float32 nats, as a sampler of that law records it.

    Without the mask token, tempered, filtered; of a greedy law at temperature 1. Filters keep
    the token itself, which other logits than the sampler's might leave out.

    Args:
        logits_SV: of any precision, guided as the sampler's.
        law: what the tokens were drawn from.
        token_S: what was drawn.
    """
    ends = law.stop_ids[:1] if law.end_rule == "logits_inf" else ()
    allowed_SV = without(logits_SV.float(), (law.mask_id, *law.never, *ends))
    drawn_SV = tempered(allowed_SV, law.temperature or 1.0)
    if law.temperature > 0 and (law.top_k > 0 or law.top_p < 1):
        kept_SV = likeliest(drawn_SV, law.top_k, law.top_p)
        kept_SV = kept_SV.scatter(1, token_S.unsqueeze(1), True)
        drawn_SV = drawn_SV.masked_fill(~kept_SV, -torch.inf)
    return at_token(drawn_SV, token_S) - drawn_SV.logsumexp(-1)
