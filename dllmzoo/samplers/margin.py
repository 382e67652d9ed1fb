"""Sampler that commits tokens first where the best one is far ahead of the second."""

from dataclasses import dataclass

from torch import Tensor

from dllmzoo.samplers._candidates import HELD_BACK, at_token
from dllmzoo.samplers._noise import Noise, Slots
from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("margin", aliases=("topk_margin",))
@dataclass(frozen=True)
class Margin(SemiAutoregressive):
    """Semi-autoregressive decoding by margin: in each block the clearest decisions first.

    The slots with the largest lead of the most likely token over the second, in probability at
    temperature 1, are committed, ties going to the smaller position. The order does not look at
    the token that was drawn. A `threshold` still asks for confidence.

    References:
        Kim et al., 2025, Train for the Worst, Plan for the Best (arXiv:2502.06768); Ye et al.,
        2025, Dream 7B (arXiv:2508.15487), its order `topk_margin`. Differs from the latter in:
        the margin is that of temperature 1 without filters, and blocks are possible.
    """

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """Lead of the most likely token; the least of all where the end rule holds a token back."""
        first_S, second_S = prob_SV.topk(2, dim=-1).values.unbind(1)
        certainty_S = first_S - second_S
        return certainty_S.masked_fill(at_token(prob_SV, token_S) == 0, HELD_BACK)
