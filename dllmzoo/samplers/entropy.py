"""Sampler that commits tokens first where the distribution is sharpest."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dllmzoo.samplers._sharpest_first import SharpestFirst
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("entropy")
@dataclass(frozen=True)
class Entropy(SharpestFirst):
    """Semi-autoregressive decoding by entropy: in each block the sharpest distributions first.

    The slots of lowest entropy are committed, ties going to the smaller position. The order looks
    at the whole distribution of a slot, not at the token that was drawn there, so an unlikely draw
    is committed too. A `threshold` still asks for confidence. Dream decodes with `temperature: 0.2,
    top_p: 0.95, confidence: after_filters, commits: share_of_rest`, one step a token.

    References:
        Ye et al., 2025, Dream 7B (arXiv:2508.15487), its order `entropy`. Differs from it in:
        entropy is that of temperature 1 without filters unless `confidence` says otherwise, and
        blocks are possible.
    """

    def sharpness(self, prob_SV: Tensor, token_S: Tensor) -> Tensor:
        """Negative entropy in nats."""
        return -torch.special.entr(prob_SV).sum(-1)
