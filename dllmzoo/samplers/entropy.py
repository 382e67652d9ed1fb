"""Sampler that commits tokens first where the distribution is sharpest."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dllmzoo.samplers._candidates import HELD_BACK, at_token
from dllmzoo.samplers._noise import Noise, Slots
from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("entropy")
@dataclass(frozen=True)
class Entropy(SemiAutoregressive):
    """Semi-autoregressive decoding by entropy: in each block the sharpest distributions first.

    The slots of lowest entropy at temperature 1 are committed, ties going to the smaller position.
    The order looks at the whole distribution of a slot, not at the token that was drawn there, so
    an unlikely draw is committed too. A `threshold` still asks for confidence.

    References:
        Ye et al., 2025, Dream 7B (arXiv:2508.15487), its order `entropy`. Differs from it in:
        entropy is that of temperature 1 without filters, and blocks are possible.
    """

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """Negative entropy in nats; the least of all for a token that the end rule holds back."""
        certainty_S = -torch.special.entr(prob_SV).sum(-1)
        return certainty_S.masked_fill(at_token(prob_SV, token_S) == 0, HELD_BACK)
