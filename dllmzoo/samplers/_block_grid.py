"""Where the blocks of the network's attention lie in each row of a canvas."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dllmzoo.samplers._canvas import Canvas


@dataclass(frozen=True)
class BlockGrid:
    """A grid that starts at the first real token of each row; the last block may be shorter.

    Rows are counted in blocks of their own: block 0 of a row is the first that holds an answer
    slot, with the tail of the prompt before it.

    Args:
        size: tokens of a block.
        column_BL: int64, column of the i-th real token; those of padding come last.
        prompt_B: int64, real tokens of the prompt.
        length_B: int64, real tokens of prompt and answer.
        block_BN: int64, block of each answer slot, from 0.
    """

    size: int
    column_BL: Tensor
    prompt_B: Tensor
    length_B: Tensor
    block_BN: Tensor

    @classmethod
    def of(cls, canvas: Canvas, size: int) -> BlockGrid:
        """The grid of all rows of a canvas."""
        N = canvas.hidden_BN.shape[1]
        length_B = canvas.attend_BL.sum(1)
        prompt_B = length_B - N
        place_BN = prompt_B.unsqueeze(1) + torch.arange(N, device=prompt_B.device)
        return cls(
            size=size,
            column_BL=(~canvas.attend_BL).long().argsort(dim=1, stable=True),
            prompt_B=prompt_B,
            length_B=length_B,
            block_BN=place_BN // size - (prompt_B // size).unsqueeze(1),
        )

    @property
    def before_B(self) -> Tensor:
        """Tokens of the whole prompt blocks of each row, which nothing is written into."""
        return self.prompt_B // self.size * self.size

    @property
    def count_B(self) -> Tensor:
        """Blocks that hold answer slots."""
        return self.block_BN[:, -1] + 1

    @property
    def capacity(self) -> int:
        """Columns of a cache for all but the last block, and of one forward of that."""
        if not len(self.count_B):
            return 1
        blocks = int(self.count_B.max())
        last = min(self.size, self.column_BL.shape[1])
        return int(self.before_B.max()) + (blocks - 1) * self.size + last

    def prompt(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The whole prompt blocks of some rows; see `block`."""
        end_R = self.before_B[rows]
        return self._span(rows, torch.zeros_like(end_R), end_R)

    def block(self, rows: Tensor, block: int) -> tuple[Tensor, Tensor, Tensor]:
        """One block of some rows, each (R, L): columns, which of them are real, places in the row.

        Blocks that are shorter than others are filled up at the end with columns that are not real.
        """
        start_R = self.before_B[rows] + block * self.size
        return self._span(rows, start_R, torch.minimum(start_R + self.size, self.length_B[rows]))

    def _span(self, rows: Tensor, start_R: Tensor, stop_R: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        width = int((stop_R - start_R).max())
        place_RL = start_R.unsqueeze(1) + torch.arange(width, device=rows.device)
        real_RL = place_RL < stop_R.unsqueeze(1)
        place_RL = torch.where(real_RL, place_RL, 0)
        return self.column_BL[rows].gather(1, place_RL), real_RL, place_RL
