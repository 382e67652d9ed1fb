"""Sampler of Dream that commits tokens first where the drawn one is likeliest."""

from dataclasses import dataclass
from typing import Annotated, Any

from torch import Tensor

from dllmzoo.recipe.part import Part
from dllmzoo.samplers._candidates import ConfidenceRule, at_token
from dllmzoo.samplers._sharpest_first import SharpestFirst
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("maskgit_plus")
@dataclass(frozen=True)
class MaskgitPlus(SharpestFirst):
    """Decoding of Dream by probability: likeliest tokens first, a share of the rest a step.

    At every masked slot a token is drawn; those that the law they were drawn from gave the highest
    probability are committed, ties going to the smaller position. The orders `margin` and `entropy`
    of Dream are the samplers of that name with `commits: share_of_rest`, `confidence:
    after_filters`. `low_confidence` differs in its defaults, and judges at temperature 1.

    Args:
        commits: schedule of the commits, read where `steps` is given; by default Dream's, under
            which the first steps may commit nothing and the last one commits what is left.

    References:
        Ye et al., 2025, Dream 7B (arXiv:2508.15487), its order `maskgit_plus`. Differs from it in:
        each row commits its own share; the mask token is never drawn; greedy decoding reads no
        filters; blocks are possible.
    """

    confidence: ConfidenceRule = "after_filters"
    commits: Annotated[Any, Part("schedule")] = "share_of_rest"

    def sharpness(self, prob_SV: Tensor, token_S: Tensor) -> Tensor:
        """Probability of the candidate."""
        return at_token(prob_SV, token_S)
