"""What goes through a block model: one stream, or a clean one with a noised one behind it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dllmzoo.models._layers import Slots
from dllmzoo.models._staircase import Context, Tokens, may_attend, runs
from dllmzoo.models._tiles import Part, block_mask, tiles


class Streams(NamedTuple):
    """What goes through the layers.

    Args:
        ids: int64 (B, L), the clean stream and, where there is one, the noised one behind it.
        tokens: of both, for masks.
        keys: tokens that are read: those of a cache, then `tokens`.
        context: attention inside the clean stream.
        wanted: bool (B, L), slots whose logits are asked for; None = those from `first` on.
        first: columns of the clean stream that have no logits: 0 where it is the only one.
        flex: masks for FlexAttention.
    """

    ids: Tensor
    tokens: Tokens
    keys: Tokens
    context: Context
    wanted: Tensor | None
    first: int = 0
    flex: bool = False

    def parts(self) -> tuple[Part, ...]:
        """Who reads whom, of all columns."""
        if self.flex:
            return block_mask(self.tokens, self.keys, self.context, len(self.ids))
        return tiles(
            self.tokens, self.keys, self.context, query_seam=self.first, key_seam=self.first
        )

    def parts_of(self, slots: Slots) -> tuple[Part, ...]:
        """Who reads whom, of some slots alone, packed."""
        every = self.tokens.expand(slots.rows)
        packed = (slots.pack(slots.take(each.unsqueeze(2))).squeeze(2) for each in every)
        query = Tokens(*packed)
        if self.flex:
            return block_mask(query, self.keys, self.context, slots.rows)
        return tiles(query, self.keys, self.context, key_seam=self.first)


def two_streams(
    input_ids: Tensor, target_ids: Tensor, clean: Tokens, context: Context,
    logits_at: Tensor | None, flex: bool,
) -> Streams:  # fmt: skip
    """The clean stream as far as it is read, and the blocks of the noised one that are wanted.

    A block of the noised stream sees no other one, so those without a wanted slot are left out;
    so is the end of the clean stream that no block before it reads.
    """
    if logits_at is None:
        target = clean.as_target()
        columns, wanted, ids = clean.length, None, target_ids
    else:
        wanted_BL = logits_at.to(input_ids.device).bool()
        clean = clean.expand(len(input_ids))
        chosen_BL = _in_wanted_blocks(wanted_BL, clean) | wanted_BL
        columns = max(int(chosen_BL.sum(1).max()), 1)
        index_BL = (~chosen_BL).long().argsort(dim=1, stable=True)[:, :columns]
        chosen_BL = chosen_BL.gather(1, index_BL)
        target = clean.take(index_BL, chosen_BL).as_target()
        wanted = wanted_BL.gather(1, index_BL) & chosen_BL
        ids = target_ids.gather(1, index_BL)
    kept = read_columns(clean, target, context)
    tokens = clean.columns(0, kept).join(target)
    if wanted is not None:
        wanted = F.pad(wanted, (kept, 0))
    ids = torch.cat([input_ids[:, :kept], ids], 1)
    return Streams(ids, tokens, tokens, context, wanted, kept, flex)


def read_columns(clean: Tokens, target: Tokens, context: Context) -> int:
    """Columns of the clean stream up to the last one that a token of the noised stream reads."""
    sees = may_attend(target, clean, context) & target.real.unsqueeze(2)
    return int(sees.flatten(0, 1).any(0).nonzero().add(1).amax()) if sees.any() else 0


def _in_wanted_blocks(wanted_BL: Tensor, tokens: Tokens) -> Tensor:
    """Bool (B, L): real tokens of blocks that hold a real wanted slot."""
    run_BL = runs(tokens)
    count_BR = torch.zeros_like(run_BL).scatter_add(1, run_BL, (wanted_BL & tokens.real).long())
    return (count_BR.gather(1, run_BL) > 0) & tokens.real
