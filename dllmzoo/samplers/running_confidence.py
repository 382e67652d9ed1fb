"""Sampler that masks again what it was least sure of."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.samplers._candidates import Candidates, at_token
from dllmzoo.samplers._canvas import Canvas, spread_out
from dllmzoo.samplers._noise import Noise, Slots
from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("running_confidence", aliases=("rcr",))
@dataclass(frozen=True)
class RunningConfidence(SemiAutoregressive):
    """Remasking by running confidence: a step fills all masks, then takes back the weakest.

    A step writes a token into every masked slot up to the end of its block and remembers its
    confidence. Then, of all slots ever written, also those of earlier blocks, it masks again those
    of lowest confidence (the larger position first among equals), as many as the schedule still
    wants masked. So `commits` are net numbers, a slot may be written many times, and early
    mistakes can be mended. Works with any model; as many forwards as other orders.

    A rollout holds the state before each step and all proposals in it; what it says of a slot is
    of its last filling. No `threshold`: the number of masks follows the schedule.

    Args:
        record_drafts: always true, since states cannot be told from the answer and its steps.

    References:
        He et al., 2025, MDPO (arXiv:2508.13148), running confidence remasking. Differs from it in:
        confidence is that of temperature 1, and every prompt of a batch may have its own length.
    """

    record_drafts: Literal[True] = True

    remasks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a threshold, then whatever the base refuses."""
        if self.threshold is not None:
            raise UsageError(
                f"threshold {self.threshold} lets confidence decide how many tokens a step "
                f"commits, and running_confidence masks again by schedule; leave threshold out, "
                f"or use low_confidence"
            )
        super().__post_init__()

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """Probability of the candidate."""
        return at_token(prob_SV, token_S)

    def _active(self, hidden_BN: Tensor, block: int | Tensor | None) -> Tensor:
        """Masked slots up to the end of the block."""
        slot_N = torch.arange(self.answer_length, device=hidden_BN.device)
        return hidden_BN & (slot_N // self._block_length <= (0 if block is None else block))

    def _chosen(self, found: Candidates, at_BN: Tensor, count: int | Tensor | None) -> Tensor:
        """All of them."""
        return at_BN

    def _revise(self, canvas: Canvas, rows: Tensor, step: int) -> None:
        """Mask again as many of the least confident slots as the block still has to commit."""
        plan = self._plan()
        block = plan[step][0]
        left = sum(count or 0 for other, count in plan[step + 1 :] if other == block)
        if left == 0:
            return
        written_BN = ~canvas.hidden_BN[rows]
        confidence_S = canvas.confidence_BN[rows][written_BN]
        ranked_BN = spread_out(confidence_S, written_BN, torch.inf).flip(1)
        weakest_BK = ranked_BN.argsort(dim=1, stable=True)[:, :left]
        again_BN = torch.zeros_like(written_BN).scatter(1, weakest_BK, True).flip(1)
        canvas.mask_again(rows, again_BN)
