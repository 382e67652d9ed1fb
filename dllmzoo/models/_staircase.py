"""Who may attend to whom in a block model: one stream, two streams, a cache, packed documents."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Context = Literal["block_causal", "token_causal"]
"""Attention inside the clean stream: whole earlier blocks and the own one, or earlier tokens."""

Origin = Literal["absolute", "answer"]
"""Where the grid of blocks starts: at the first real token, or at the answer."""


class Tokens(NamedTuple):
    """What a mask needs to know of the tokens of a row; all (B, L) or broadcastable to it.

    Args:
        block: int64, number of the token's block; blocks before an answer's grid are negative.
        position: int64, real tokens before it in its document.
        real: bool, False = padding.
        target: bool, a token of the second, noised stream.
        document: int64; tokens of different documents never meet.
    """

    block: Tensor
    position: Tensor
    real: Tensor
    target: Tensor
    document: Tensor

    @classmethod
    def clean(
        cls,
        position: Tensor,
        real: Tensor,
        block_size: int,
        *,
        origin: Tensor | int = 0,
        document: Tensor | None = None,
    ) -> Tokens:
        """Tokens of the clean stream on a grid of blocks.

        Args:
            position: int64 (B, L).
            real: bool (B, L).
            block_size: tokens of a block, >= 1.
            origin: position at which a block starts; (B, 1) or a number.
            document: int64 (B, L); None = one document a row.
        """
        block = torch.div(position - origin, block_size, rounding_mode="floor")
        document = torch.zeros_like(position) if document is None else document
        return cls(block, position, real, torch.zeros_like(real), document)

    def as_target(self) -> Tokens:
        """The same tokens in the second stream."""
        return self._replace(target=torch.ones_like(self.target))

    def take(self, index_BL: Tensor, real_BL: Tensor) -> Tokens:
        """Columns of each row; `real_BL` says which of them are no filling."""
        columns = (each.expand(len(index_BL), -1).gather(1, index_BL) for each in self)
        taken = Tokens(*columns)
        return taken._replace(real=taken.real & real_BL)

    def join(self, other: Tokens) -> Tokens:
        """Both, after each other in each row."""
        return Tokens(*(torch.cat(pair, 1) for pair in zip(self, other, strict=True)))


def may_attend(query: Tokens, key: Tokens, context: Context = "block_causal") -> Tensor:
    """Bool (B, 1, Q, K), True = the query attends to the key.

    Inside the clean stream a token sees its own block and the ones before it (`token_causal`:
    itself and the tokens before it). A token of the target stream sees the clean blocks strictly
    before its own, and its own block in the target stream; clean tokens never see the target
    stream. Padding is seen by nobody, and a query that would see nothing sees every key, so that
    nothing becomes NaN.
    """

    def pair(value: str) -> tuple[Tensor, Tensor]:
        return getattr(query, value).unsqueeze(2), getattr(key, value).unsqueeze(1)

    (q_block, k_block), (q_target, k_target) = pair("block"), pair("target")
    if context == "block_causal":
        earlier = k_block <= q_block
    else:
        q_position, k_position = pair("position")
        earlier = k_position <= q_position
    allowed = torch.where(q_target, k_block < q_block, earlier) & ~k_target
    allowed = allowed | (q_target & k_target & (q_block == k_block))
    q_document, k_document = pair("document")
    allowed = allowed & (q_document == k_document) & key.real.unsqueeze(1)
    return (allowed | ~allowed.any(2, keepdim=True)).unsqueeze(1)


def staircase(
    length: int,
    block_size: int,
    *,
    prompt_length: int = 0,
    origin: Origin = "absolute",
    document_L: Tensor | None = None,
    context: Context = "block_causal",
) -> Tensor:
    """The dual-stream mask of a row, bool (2L, 2L), in the order [clean; target].

    Args:
        length: L, tokens of each stream.
        block_size: tokens of a block, >= 1; the last block may be shorter.
        prompt_length: tokens before the answer; read with `origin: answer`.
        origin: where the grid starts.
        document_L: int64 (L,), number of each token's document; positions restart with each.
        context: attention inside the clean stream.
    """
    index_L = torch.arange(length)
    if document_L is None:
        document_L = torch.zeros_like(index_L)
    first_L = torch.searchsorted(document_L.contiguous(), document_L.contiguous())
    position_BL = (index_L - first_L).unsqueeze(0)
    start = prompt_length if origin == "answer" else 0
    real_BL = torch.ones_like(position_BL, dtype=torch.bool)
    clean = Tokens.clean(
        position_BL, real_BL, block_size, origin=start, document=document_L.unsqueeze(0)
    )
    both = clean.join(clean.as_target())
    return may_attend(both, both, context)[0, 0]
