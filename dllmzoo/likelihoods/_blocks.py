"""Answer slots by blocks of the network's attention: which are drawn, which are scored."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._plan import after_end
from dllmzoo.records import Rollout, Views

Context = Literal["block_causal", "token_causal"]
"""Attention of the clean stream."""

Tail = Literal["keep_sampled", "pad_end", "score_tail"]
"""What becomes of the slots behind the end token in the block that holds it."""


@dataclass(frozen=True)
class Blocks:
    """The answer of each row, cut into the blocks of the network.

    Args:
        number_BL: int64, number M of a column's block, counted from the row's first real token;
            0 under padding.
        drawn_BL: bool, slots that a mask of their block may hide or show.
        scored_BL: bool, those whose log-probs count.
        apart_BL: bool, answer slots that are masked throughout: those of blocks behind the end,
            and those that a sampler never filled.
        size_BL: int64, drawn slots in the column's block.
        rank_BL: int64, drawn slots before it in its block.
        shown_BL: int64, what stands in slots that are not hidden; None = the final tokens.
        most: blocks that a row can have, M.
    """

    number_BL: Tensor
    drawn_BL: Tensor
    scored_BL: Tensor
    apart_BL: Tensor
    size_BL: Tensor
    rank_BL: Tensor
    shown_BL: Tensor | None
    most: int

    @property
    def size_BM(self) -> Tensor:
        """Drawn slots of each block."""
        return self.sums(self.drawn_BL)

    def sums(self, value_BL: Tensor) -> Tensor:
        """Sum of whole numbers over the columns of each block, int64 (B, M)."""
        empty_BM = self.number_BL.new_zeros(len(value_BL), self.most)
        return empty_BM.scatter_add(1, self.number_BL, value_BL.long())

    def at(self, value_BM: Tensor) -> Tensor:
        """The value of each column's block; (B, ..., M) gives (B, ..., L)."""
        number = self.number_BL.view(len(self.number_BL), *[1] * (value_BM.ndim - 2), -1)
        return value_BM.gather(-1, number.expand(*value_BM.shape[:-1], -1))


def block_numbers(rollout: Rollout, needed_by: str, instead: str) -> tuple[Tensor, int]:
    """Number of each column's block, 0 under padding, and how many blocks a row can have.

    Args:
        rollout: of a network with blocks.
        needed_by: what needs them, for the message.
        instead: what does without.

    Raises:
        UsageError: the network has no blocks.
    """
    if rollout.block_size is None:
        raise UsageError(
            f"{needed_by} works in the blocks of the network's attention, and the network of this "
            f"rollout attends to everything; use a block model (model.name: sdar, its config with "
            f"attention: block_causal), or {instead}"
        )
    most = max(1, -(-rollout.tokens_BL.shape[1] // rollout.block_size))
    return rollout.block_BL.clamp(min=0), most


def answer_blocks(rollout: Rollout, tail: Tail, needed_by: str, instead: str) -> Blocks:
    """Cut the answers into blocks; those that hold no valid slot are left out.

    Slots behind the end token are drawn like the others of their block, since the sampler drew
    them, but for those that a sampler never filled: they are masked throughout.

    Raises:
        UsageError: the network has no blocks.
    """
    number_BL, most = block_numbers(rollout, needed_by, instead)
    valid_BL, zero_BL = rollout.valid_BL, torch.zeros_like(number_BL)
    blocks = Blocks(number_BL, valid_BL, valid_BL, valid_BL, zero_BL, zero_BL, None, most)
    drawn_BL = rollout.answer_BL & (blocks.at(blocks.size_BM) > 0)
    if tail != "pad_end":
        filled_BL = rollout.reveal_BL >= 0
        unrecorded_B1 = ~filled_BL.any(1, keepdim=True)
        drawn_BL = drawn_BL & (valid_BL | filled_BL | unrecorded_B1)
    blocks = replace(
        blocks, drawn_BL=drawn_BL, apart_BL=rollout.answer_BL & ~drawn_BL,
        scored_BL=drawn_BL if tail == "score_tail" else valid_BL,
        shown_BL=_padded_with_ends(rollout) if tail == "pad_end" else None,
    )  # fmt: skip
    size_BM = blocks.size_BM
    rank_BL = drawn_BL.long().cumsum(1) - 1 - blocks.at(size_BM.cumsum(1) - size_BM)
    return replace(blocks, size_BL=blocks.at(size_BM), rank_BL=rank_BL)


def _padded_with_ends(rollout: Rollout) -> Tensor:
    """The tokens, with the end token of the row, its last valid one, in all slots behind it."""
    column_L = torch.arange(rollout.tokens_BL.shape[1], device=rollout.tokens_BL.device)
    last_B1 = torch.where(rollout.valid_BL, column_L, 0).amax(1, keepdim=True)
    end_B1 = rollout.tokens_BL.gather(1, last_B1)
    return torch.where(after_end(rollout), end_B1, rollout.tokens_BL)


def in_two_streams(views: Views, context: Context, shown_BL: Tensor | None = None) -> Views:
    """The same views behind a clean stream, which all blocks of a view read in one pass."""
    shown_BKL = None
    if shown_BL is not None:
        shown_BKL = shown_BL.unsqueeze(1).expand(views.hide_BKL.shape)
    return replace(views, layout="dual_stream", context=context, shown_BKL=shown_BKL)


def random_part_of_blocks(blocks: Blocks, order_BKL: Tensor, size_BKL: Tensor) -> Tensor:
    """In each block of each view the drawn slots of lowest `order`, as many as `size` says."""
    drawn_BKL = blocks.drawn_BL.unsqueeze(1)
    number_BKL = torch.where(drawn_BKL, blocks.number_BL.unsqueeze(1), blocks.most)
    by_order = order_BKL.argsort(dim=2, stable=True)
    by_block = number_BKL.expand_as(by_order).gather(2, by_order).argsort(dim=2, stable=True)
    place_BKL = by_order.gather(2, by_block).argsort(dim=2)
    before_BM = blocks.size_BM.cumsum(1) - blocks.size_BM
    rank_BKL = place_BKL - blocks.at(before_BM).unsqueeze(1)
    return drawn_BKL & (rank_BKL < size_BKL)
