"""Sampler that commits tokens in random order."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.samplers._noise import Noise, Slots
from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("random_order")
@dataclass(frozen=True)
class RandomOrder(SemiAutoregressive):
    """Semi-autoregressive decoding that fills each block in a uniformly random order.

    The order is drawn for every sample and does not look at the model, so a step's log-prob is
    the exact log-prob of the step given its positions: the sampler under which `denoising_steps`
    over all steps gives an unbiased policy gradient. It answers worse than confidence orders, and
    takes no `threshold`, which would make the order look at the model.

    References:
        Nie et al., 2025, Large Language Diffusion Models (arXiv:2502.09992), random remasking.
    """

    greedy_varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a threshold, then whatever the base refuses."""
        if self.threshold is not None:
            raise UsageError(
                f"threshold {self.threshold} commits confident tokens, and random_order must not "
                f"look at confidence; leave threshold out, or use low_confidence"
            )
        super().__post_init__()

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """The random number of the slot."""
        return noise.priority(at)
