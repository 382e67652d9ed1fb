"""Keys and values of finished blocks, so that generation reads each of them once."""

from __future__ import annotations

import torch
from torch import Tensor

from dllmzoo.models._staircase import Tokens


class BlockCache:
    """An append-only store of keys and values; exact, since finished blocks never change.

    A forward appends its tokens for its own queries to read. They stay only if it is told to
    store them: those of a block in the making, whose masks would otherwise be remembered, do not.

    Args:
        capacity: tokens of a row that can be held, those of one forward that stores nothing
            included.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self._tokens: Tokens | None = None
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, tokens: Tokens) -> Tokens:
        """What stands in the store and behind it the new tokens, as keys of a mask."""
        room = self.used + tokens.block.shape[1]
        if room > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} tokens, {room} are needed")
        self._new = tokens
        return tokens if self._tokens is None else self._tokens.join(tokens)

    def read(self, layer: int, k_BHLE: Tensor, v_BHLE: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, stored ones first; the given ones are appended."""
        if layer not in self._layers:
            B, H, _, E = k_BHLE.shape
            empty = k_BHLE.new_empty(B, H, self.capacity, E)
            self._layers[layer] = empty, torch.empty_like(empty)
        end = self.used + k_BHLE.shape[2]
        found = []
        for buffer, value in zip(self._layers[layer], (k_BHLE, v_BHLE), strict=True):
            buffer[:, :, self.used : end] = value
            found.append(buffer[:, :, :end])
        return found[0], found[1]

    def keep(self) -> None:
        """Store the tokens of the last forward."""
        self._tokens = self._new if self._tokens is None else self._tokens.join(self._new)
        self.used += self._new.block.shape[1]

    def take(self, row_B: Tensor) -> BlockCache:
        """The cache of some rows."""
        kept = BlockCache(self.capacity)
        kept.used = self.used
        if self._tokens is not None:
            kept._tokens = Tokens(*(each[row_B] for each in self._tokens))
        kept._layers = {i: (k[row_B], v[row_B]) for i, (k, v) in self._layers.items()}
        return kept
