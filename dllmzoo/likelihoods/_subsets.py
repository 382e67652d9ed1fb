"""Sums over all subsets of a few slots: what an enumeration of masks is pooled by.

The nonempty subsets of n slots have the codes 1 to 2^n - 1, bit i of a code meaning slot i.
"""

import math

import torch
from torch import Tensor

from dllmzoo.likelihoods._plan import precise


def subset_codes(slots: int, device: torch.device) -> Tensor:
    """Codes of the nonempty subsets of `slots` slots in rising order, int64 (2^slots - 1,)."""
    return torch.arange(1, 2**slots, device=device)


def holds(code: Tensor, rank: Tensor) -> Tensor:
    """Whether the subset of a code holds the slot of a rank, bool; the shapes are broadcast."""
    return (code >> rank) & 1 == 1


def share_of_orders(size: Tensor, total: Tensor) -> Tensor:
    """1 / (k binomial(n, k)): weight of a hidden set of k of n slots; 0 for empty ones.

    It is the share of orders of n slots in which the k come last, over k: each of the k is then
    the next one equally often.
    """
    dtype = precise(size.device)
    n, k = total.to(dtype), size.to(dtype).clamp(min=1)
    log_choices = (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).clamp(min=1).lgamma()
    return torch.where(size > 0, (-log_choices).exp() / k, 0)


def log_likelihood(logprob_RKN: Tensor, length_R: Tensor) -> Tensor:
    """Log of the mean over all orders of the chain's probability, (R,); differentiable.

    With F(H) the probability of completing the hidden set H, F(H) is the mean over i in H of
    p(i, H) F(H without i). Sets are handled level by level, a level being all sets of one size in
    the order of their codes; a row of n slots ends at the first set of level n, the one of its
    own n slots.

    Args:
        logprob_RKN: of slot i where the set of code k + 1 is hidden, K = 2^N - 1; whatever stands
            at slots outside the set, or behind the first n of a row, is not read.
        length_R: n, in 0..N.
    """
    R, _, N = logprob_RKN.shape
    code_K = subset_codes(N, logprob_RKN.device)
    bit_KN = holds(code_K.unsqueeze(1), torch.arange(N, device=code_K.device))
    size_K = bit_KN.sum(1)

    before = code_K.new_zeros(1)  # the codes of the level below; level 0 is the empty set
    value = logprob_RKN.new_zeros(R, 1)
    whole = [value[:, 0]]
    for size in range(1, N + 1):
        sets = (size_K == size).nonzero()[:, 0]
        codes, slots = code_K[sets], bit_KN[sets].nonzero()[:, 1].view(-1, size)
        rest = torch.searchsorted(before, codes.unsqueeze(1) - (1 << slots))
        token = logprob_RKN[:, sets].gather(2, slots.expand(R, -1, -1))
        value = (token + value[:, rest]).logsumexp(2) - math.log(size)
        before, whole = codes, [*whole, value[:, 0]]
    return torch.stack(whole, 1).gather(1, length_R.unsqueeze(1))[:, 0]
