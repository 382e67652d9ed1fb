"""How a block sampler reads the network: whole rows at each step, or one block and a cache."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from dllmzoo.protocols import Policy
from dllmzoo.samplers._alike import alike
from dllmzoo.samplers._block_grid import BlockGrid
from dllmzoo.samplers._canvas import Canvas


class Reader(Protocol):
    """Runs the network for the steps of a walk over blocks."""

    def start(self) -> None:
        """Before the first block."""
        ...

    def logits(self, rows: Tensor, block: int, at_RN: Tensor) -> Tensor:
        """Logits (S, V) of the marked answer slots, all in one block of their row."""
        ...

    def finish(self, rows: Tensor, block: int) -> None:
        """Block after block: it is full, and `rows` go on to the next."""
        ...


def reader_of(policy: Policy, canvas: Canvas, grid: BlockGrid, cache: bool) -> Reader:
    """A reader with a cache if that is wanted and the policy has one."""
    if cache and hasattr(policy, "new_cache"):
        return CachedBlocks(policy, canvas, grid)
    return WholeRows(policy, canvas)


class WholeRows:
    """Every step reads whole rows, with all later blocks masked; they are not seen anyway."""

    def __init__(self, policy: Policy, canvas: Canvas) -> None:
        self.policy, self.canvas = policy, canvas

    def start(self) -> None:
        """Nothing is kept."""

    def logits(self, rows: Tensor, block: int, at_RN: Tensor) -> Tensor:
        """From one forward of the rows."""
        (logits_SV,) = self.canvas.read(self.policy, rows, at_RN, lambda logits_SV, _: (logits_SV,))
        L = self.canvas.tokens_BL.shape[1]
        self.canvas.reads.append((len(rows), L, L, len(logits_SV)))
        return logits_SV

    def finish(self, rows: Tensor, block: int) -> None:
        """Nothing is kept."""


class CachedBlocks:
    """Every step reads one block of each row, and keys and values of what stands before it.

    What is stored comes from a forward on finished tokens: of the whole prompt blocks together,
    once for the samples of a prompt, then of each block once no slot of it is masked. A step
    stores nothing. Where only some rows run, their part of the cache is copied, so the peak is two
    caches.
    """

    def __init__(self, policy: Any, canvas: Canvas, grid: BlockGrid) -> None:
        self.policy, self.canvas, self.grid = policy, canvas, grid
        self.cache: Any = policy.new_cache(grid.capacity)
        self.rows = torch.arange(len(canvas.tokens_BL), device=canvas.tokens_BL.device)
        self.stored = 0
        self._part: Any = self.cache
        self._part_rows = self.rows

    def start(self) -> None:
        """Store the whole prompt blocks of every row, from one forward of each different prompt."""
        every, canvas = self.rows, self.canvas
        if not bool((self.grid.before_B > 0).any()):
            return
        assert canvas.group_B is not None
        self.rows, which_B = alike(canvas.tokens_BL, canvas.attend_BL, canvas.group_B)
        self._store(self.grid.prompt(self.rows))
        if len(self.rows) < len(every):
            self.cache = self.cache.take(which_B)
        self.rows = self._part_rows = every
        self._part = self.cache

    def logits(self, rows: Tensor, block: int, at_RN: Tensor) -> Tensor:
        """From one forward of the block."""
        if len(rows) < len(self._part_rows):
            self._part = self._part.take(torch.isin(self._part_rows, rows).nonzero()[:, 0])
            self._part_rows = rows
        column_RL, real_RL, place_RL = self.grid.block(rows, block)
        at_RL = pad(at_RN, (self.canvas.prompt_length, 0)).gather(1, column_RL) & real_RL
        return self._run(rows, (column_RL, real_RL, place_RL), at_RL, self._part, store=False)

    def finish(self, rows: Tensor, block: int) -> None:
        """Store the block of the rows that go on; the others leave the cache."""
        self._part, self._part_rows = None, rows
        if len(rows) == 0:
            self.cache = None
            return
        if len(rows) < len(self.rows):
            self.cache = self.cache.take(torch.isin(self.rows, rows).nonzero()[:, 0])
            self.rows = rows
        self._store(self.grid.block(rows, block))

    def _store(self, span: tuple[Tensor, Tensor, Tensor]) -> None:
        self._run(self.rows, span, torch.zeros_like(span[1]), self.cache, store=True)
        self.stored += span[0].shape[1]
        self._part, self._part_rows = self.cache, self.rows

    def _run(
        self, rows: Tensor, span: tuple[Tensor, Tensor, Tensor], at_RL: Tensor, cache: Any, *,
        store: bool,
    ) -> Tensor:  # fmt: skip
        column_RL, real_RL, place_RL = span
        tokens_RL = self.canvas.tokens_BL[rows].gather(1, column_RL)
        logits_SV = self.policy(
            tokens_RL, real_RL, position_ids=place_RL, cache=cache, store=store, logits_at=at_RL
        ).logits
        rows_run, columns = tokens_RL.shape
        self.canvas.forwards += rows_run
        self.canvas.reads.append((rows_run, columns, self.stored + columns, len(logits_SV)))
        return logits_SV.to(tokens_RL.device)  # the head of a spread-out model may sit elsewhere
