"""Which tokens a draw is restricted to: the k likeliest, and the fewest that hold a probability."""

from __future__ import annotations

import torch
from torch import Tensor


def likeliest(logits_SV: Tensor, top_k: int, top_p: float) -> Tensor:
    """kept_SV, bool: what top-k leaves, and of that what top-p leaves; at least one token.

    Among equal logits the lower id is the likelier one.

    Args:
        logits_SV: of the law, temperature applied; -inf where a token is forbidden, which stays so.
        top_k: number of tokens; 0 = all.
        top_p: in (0, 1]; of the probability of the tokens that top-k leaves. A token is left out
            if those before it hold this much already.
    """
    sorted_SV, order_SV = logits_SV.sort(dim=-1, descending=True, stable=True)
    rank_V = torch.arange(logits_SV.shape[1], device=logits_SV.device)
    if top_k > 0:
        sorted_SV = sorted_SV.masked_fill(rank_V >= top_k, -torch.inf)
    kept_SV = sorted_SV > -torch.inf
    if top_p < 1:
        prob_SV = sorted_SV.softmax(-1).double()
        kept_SV &= prob_SV.cumsum(-1) - prob_SV < top_p
    kept_SV |= rank_V == 0
    return torch.zeros_like(kept_SV).scatter(1, order_SV, kept_SV)
