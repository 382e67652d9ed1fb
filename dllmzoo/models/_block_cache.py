"""Keys and values of finished blocks, so that generation reads each of them once."""

from __future__ import annotations

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
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
        self._new: Tokens | None = None
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, tokens: Tokens) -> Tokens:
        """What stands in the store and behind it the new tokens, as keys of a mask.

        Raises:
            UsageError: there is no room for them.
        """
        room = self.used + tokens.length
        if room > self.capacity:
            raise UsageError(
                f"the cache holds {self.capacity} tokens a row and {room} are needed; make it with "
                f"new_cache({room}) or more"
            )
        self._new = tokens
        return tokens if self._tokens is None else self._tokens.join(tokens)

    def read(self, layer: int, k_BHLE: Tensor, v_BHLE: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, stored ones first; the given ones are appended.

        Raises:
            UsageError: a gradient would have to flow through the store.
        """
        if k_BHLE.requires_grad or v_BHLE.requires_grad:
            raise UsageError("a cache is read without gradient; call the model in torch.no_grad()")
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

    def stored(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys (normalised and rotated) and values that a layer holds, (B, H, used, E) each."""
        k_BHLE, v_BHLE = (each[:, :, : self.used] for each in self._layers[layer])
        return k_BHLE, v_BHLE

    def keep(self) -> None:
        """Store the tokens of the last forward."""
        if self._new is not None:
            self._tokens = self._new if self._tokens is None else self._tokens.join(self._new)
            self.used = self._tokens.length
            self._new = None

    def take(self, row_B: Tensor) -> BlockCache:
        """The cache of some rows."""
        kept = BlockCache(self.capacity)
        kept.used = self.used
        if self._tokens is not None:
            kept._tokens = Tokens(*(each[row_B] for each in self._tokens))
        kept._layers = {i: (k[row_B], v[row_B]) for i, (k, v) in self._layers.items()}
        return kept
