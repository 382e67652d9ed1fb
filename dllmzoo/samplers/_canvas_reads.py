"""How an order-based sampler reads the network: whole rows, or a part of them beside a cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy
from dllmzoo.reading import PerSlot
from dllmzoo.samplers._approximate_cache import ApproximateCache
from dllmzoo.samplers._canvas import Canvas
from dllmzoo.zoo import MODELS

ALL = -1
"""Stands for every row, where all of them are in the same block at the same time."""

Read = Callable[[Tensor, Tensor, PerSlot], tuple[Tensor, ...]]
"""(rows, at, per_slot) -> what `per_slot` makes of these slots, from one forward of the rows; see
`Canvas.read`."""


class Reads(Protocol):
    """Runs the network for the steps of a walk."""

    def forwards(self, rows: Tensor, block: int | None) -> list[tuple[slice | Tensor, Read]]:
        """The forwards of a step: which of its rows go through the network together, and how.

        Args:
            rows: that take the step.
            block: the active one; None = the first of each row that is not full.
        """
        ...


class WholeRows:
    """Every step is one forward of all that take it."""

    def __init__(self, policy: Policy, canvas: Canvas, cfg_scale: float) -> None:
        self.read = partial(canvas.read, policy, cfg_scale=cfg_scale)

    def forwards(self, rows: Tensor, block: int | None) -> list[tuple[slice | Tensor, Read]]:
        """One."""
        return [(slice(None), self.read)]


class CachedRows:
    """A row is read whole where its block begins and where it is due again, else in part.

    What is due is decided row by row, from the steps that the row itself took: neighbours change no
    answer. Rows in different blocks, as a threshold makes them, take a step in several forwards.

    Args:
        policy: with `new_canvas_cache`.
        canvas: to be filled.
        cache: which part of a row runs, and how often all of it.
        rows: all that can take a step, ascending.
        block_length: tokens of a block.

    Raises:
        UsageError: the policy makes no such cache.
    """

    def __init__(
        self, policy: Any, canvas: Canvas, cache: ApproximateCache, rows: Tensor, block_length: int
    ) -> None:
        if not hasattr(policy, "new_canvas_cache"):
            raise UsageError(
                f"cache {cache.kind} needs a network that keeps the keys and values of a canvas, "
                f"and {type(policy).__name__} does not; the families {', '.join(with_cache())} do. "
                f"Leave cache out"
            )
        self.policy, self.canvas, self.cache = policy, canvas, cache
        self.rows, self.block_length = rows, block_length
        self.store: Any = policy.new_canvas_cache(len(rows))
        self._age: dict[int, tuple[int, int]] = {}  # row -> block, steps since it was read whole

    def forwards(self, rows: Tensor, block: int | None) -> list[tuple[slice | Tensor, Read]]:
        """One of the rows that are read whole, and one of the others of each block."""
        if block is not None and self.canvas.commits_BT is None:
            whole = self._is_due(ALL, block)
            if whole:  # rows that have stopped leave the store
                self.rows, self.store = rows, self.policy.new_canvas_cache(len(rows))
            return [(slice(None), self._reading(None if whole else block))]
        active = [block] * len(rows) if block is not None else self._first_open(rows)
        together: dict[int | None, list[int]] = defaultdict(list)
        for i, (row, its_block) in enumerate(zip(rows.tolist(), active, strict=True)):
            together[None if self._is_due(row, its_block) else its_block].append(i)
        if len(together) == 1:
            return [(slice(None), self._reading(*together))]
        return [
            (torch.tensor(index, device=rows.device), self._reading(its_block))
            for its_block, index in together.items()
        ]

    def _reading(self, block: int | None) -> Read:
        """A forward of whole rows, or of what a step on a block runs."""
        length = self.canvas.tokens_BL.shape[1]
        columns = None
        if block is not None:
            start = self.canvas.prompt_length + block * self.block_length
            columns = self.cache.columns(start, min(start + self.block_length, length), length)

        def read(rows: Tensor, at: Tensor, per_slot: PerSlot) -> tuple[Tensor, ...]:
            store = self.store
            if len(rows) < len(self.rows):
                store = store.of(torch.searchsorted(self.rows, rows))
            options = {"canvas_cache": store, "columns": columns}
            made = self.canvas.read(self.policy, rows, at, per_slot, **options)
            self.canvas.reads.append((len(rows), store.ran, length, len(made[0])))
            return made

        return read

    def _is_due(self, row: int, block: int) -> bool:
        """Whether a row must be read whole; notes that it takes a step."""
        last, age = self._age.get(row, (None, 0))
        whole = block != last or self.cache.again(age)
        self._age[row] = (block, 1 if whole else age + 1)
        return whole

    def _first_open(self, rows: Tensor) -> list[int]:
        """Block of the first masked slot of each row."""
        return (self.canvas.hidden_BN[rows].int().argmax(1) // self.block_length).tolist()


def planned_reads(
    cache: ApproximateCache, plan: Sequence[tuple[int, int]], prompt_length: int,
    answer_length: int, block_length: int,
) -> tuple[tuple[int, int, int, int], ...]:  # fmt: skip
    """(rows, queries, keys, logits) of each forward of one sample that never stops.

    Where the head predicts the next token a step on a part runs one column more.

    Args:
        cache: which part of a row runs, and how often all of it.
        plan: (block, tokens to commit) of every step.
        prompt_length: real tokens of the prompt.
        answer_length: N.
        block_length: tokens of a block.
    """
    length, reads = prompt_length + answer_length, []
    last, age, left = -1, 0, 0
    for block, count in plan:
        if count == 0:
            continue
        start = prompt_length + block * block_length
        stop = min(start + block_length, length)
        if block != last:
            left = stop - start
        whole = block != last or cache.again(age)
        columns = slice(0, length) if whole else cache.columns(start, stop, length)
        reads.append((1, columns.stop - columns.start, length, left))
        last, age, left = block, 1 if whole else age + 1, left - count
    return tuple(reads)


def with_cache() -> list[str]:
    """The families whose networks keep keys and values of a canvas."""
    return [name for name in MODELS.names() if hasattr(MODELS.get(name), "new_canvas_cache")]
