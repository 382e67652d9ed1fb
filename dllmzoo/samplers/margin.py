"""Sampler that commits tokens first where the best one is far ahead of the second."""

from dataclasses import dataclass

from torch import Tensor

from dllmzoo.samplers._sharpest_first import SharpestFirst
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("margin", aliases=("topk_margin",))
@dataclass(frozen=True)
class Margin(SharpestFirst):
    """Semi-autoregressive decoding by margin: in each block the clearest decisions first.

    The slots with the largest lead of the most likely token over the second, in probability, are
    committed, ties going to the smaller position. The order does not look at the token that was
    drawn. A `threshold` still asks for confidence. Dream's steps are `commits: share_of_rest`.

    References:
        Kim et al., 2025, Train for the Worst, Plan for the Best (arXiv:2502.06768); Ye et al.,
        2025, Dream 7B (arXiv:2508.15487), its order `topk_margin`. Differs from the latter in:
        the margin is that of temperature 1 without filters unless `confidence` says otherwise,
        and blocks are possible.
    """

    def sharpness(self, prob_SV: Tensor, token_S: Tensor) -> Tensor:
        """Lead of the most likely token."""
        first_S, second_S = prob_SV.topk(2, dim=-1).values.unbind(1)
        return first_S - second_S
