"""Sampler that fills the blanks of a given text."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy
from dllmzoo.records import Prompts
from dllmzoo.samplers._blocks import shared
from dllmzoo.samplers._candidates import Law, at_token
from dllmzoo.samplers._canvas import Canvas
from dllmzoo.samplers._given import given_answers
from dllmzoo.samplers._noise import Noise, Slots
from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive, Walk
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("infill")
@dataclass(frozen=True)
class Infill(SemiAutoregressive):
    """Fills the blanks of a text and keeps the rest, the most confident tokens first.

    The text comes with the prompt, the mask token at each blank, and a blank is one token: the
    length is kept, and no stop token is drawn, since the text goes on. Only blanks are answer
    slots; what was given belongs to the prompt. The blanks of a block are shared over its steps
    by `commits`, row by row, and a row without a blank left runs no forward.

    Args:
        answer_length: N, tokens of the text, 1 to 65536; shorter texts are filled with the end
            token, longer ones are an error.
        end_rule: `none` only: stop tokens are never drawn.
        stop_at_end: false only.
    """

    given: ClassVar[str] = "blanks"

    def __post_init__(self) -> None:
        """Refuse rules about end tokens, then whatever the base refuses."""
        if self.end_rule != "none" or self.stop_at_end:
            raise UsageError(
                f"infill keeps the length of the text and draws no stop token; leave out "
                f"end_rule: {self.end_rule}, stop_at_end: {str(self.stop_at_end).lower()}, or use "
                f"low_confidence"
            )
        super().__post_init__()

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """Probability of the candidate."""
        return at_token(prob_SV, token_S)

    def _law(self, policy: Policy) -> Law:
        return replace(super()._law(policy), never=tuple(policy.stop_ids))

    def _canvas(self, policy: Policy, prompts: Prompts, device: torch.device) -> Canvas:
        answer_BN = given_answers(prompts, self.answer_length, "infill", "given_blanks")
        canvas = Canvas.given(prompts, answer_BN, self.num_steps, policy.mask_id, device)
        if self.threshold is None:
            canvas.commits_BT = self._commits(canvas.hidden_BN)
        return canvas

    def _commits(self, blank_BN: Tensor) -> Tensor:
        """Tokens to commit at each step: in every row its blanks of a block over its steps."""
        block_T = torch.tensor([block for block, _ in self._plan()])
        steps_of = block_T.bincount().tolist()
        column_N = torch.arange(self.answer_length) // self._block_length
        commits_BT = [
            [
                count
                for block, steps in enumerate(steps_of)
                for count in self._shared(int(blank_N[column_N == block].sum()), steps)
            ]
            for blank_N in blank_BN.cpu()
        ]
        return torch.tensor(commits_BT, device=blank_BN.device).view(len(blank_BN), len(block_T))

    def _shared(self, blanks: int, steps: int) -> list[int]:
        """The blanks of a block over its steps."""
        if self.steps is None:
            return [1] * blanks + [0] * (steps - blanks)
        return shared(blanks, steps, self.commits)

    def _fill(self, walk: Walk, prompts: Prompts) -> None:
        rows = walk.canvas.running_B.nonzero()[:, 0]  # a text without a blank is finished
        self._take_steps(walk, rows, range(self.num_steps))
