"""Who may attend to whom in a block model: one stream, two streams, a cache, packed documents."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from dllmzoo.errors import UsageError

Context = Literal["block_causal", "token_causal"]
"""Attention inside the clean stream: whole earlier blocks and the own one, or earlier tokens."""

Origin = Literal["absolute", "answer"]
"""Where the grid of blocks starts: at the first real token, or at the answer."""


class Tokens(NamedTuple):
    """What a mask needs to know of the tokens of a row; (B, L), or (1, L) if all rows are alike.

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
            position: int64 (B, L), or (1, L).
            real: bool of that shape.
            block_size: tokens of a block, >= 1.
            origin: position at which a block starts; a number, or (B, 1), or (B, L).
            document: int64 (B, L); None = one document a row.
        """
        block = torch.div(position - origin, block_size, rounding_mode="floor")
        document = torch.zeros_like(position) if document is None else document
        every = torch.broadcast_tensors(block, position, real, torch.zeros_like(real), document)
        return cls(*every)

    @property
    def length(self) -> int:
        """Columns."""
        return self.block.shape[1]

    def as_target(self) -> Tokens:
        """The same tokens in the second stream."""
        return self._replace(target=torch.ones_like(self.target))

    def expand(self, rows: int) -> Tokens:
        """One row each for `rows` rows."""
        return Tokens(*(each.expand(rows, -1) for each in self))

    def columns(self, start: int, stop: int) -> Tokens:
        """The columns from start to stop."""
        return Tokens(*(each[:, start:stop] for each in self))

    def take(self, index_BL: Tensor, real_BL: Tensor) -> Tokens:
        """Columns of each row; `real_BL` says which of them are no filling."""
        taken = Tokens(*(each.gather(1, index_BL) for each in self.expand(len(index_BL))))
        return taken._replace(real=taken.real & real_BL)

    def join(self, other: Tokens) -> Tokens:
        """Both, after each other in each row."""
        rows = max(len(self.block), len(other.block))
        pairs = zip(self.expand(rows), other.expand(rows), strict=True)
        return Tokens(*(torch.cat(pair, 1) for pair in pairs))


def sees(query: Tokens, key: Tokens, context: Context = "block_causal") -> Tensor:
    """Whether each query attends to each key, bool, for fields of any shapes that broadcast.

    Inside the clean stream a token sees its own block and the ones before it (`token_causal`:
    itself and the tokens before it). A token of the target stream sees the clean blocks strictly
    before its own, and its own block in the target stream; clean tokens never see the target
    stream, documents never see each other, and nobody sees padding.
    """
    clean, same = key.block <= query.block, key.block == query.block
    if context == "token_causal":
        clean = key.position <= query.position
    before = key.block < query.block
    of_clean = torch.where(query.target, before, clean) & ~key.target
    of_target = query.target & key.target & same
    return (of_clean | of_target) & (query.document == key.document) & key.real


def may_attend(query: Tokens, key: Tokens, context: Context = "block_causal") -> Tensor:
    """`sees` for all pairs, bool (B, Q, K), or (1, Q, K) if all rows are alike.

    Raises:
        UsageError: there is no such context.
    """
    if context not in get_args(Context):
        raise UsageError(f"context is {context!r}, must be one of {', '.join(get_args(Context))}")
    queries = Tokens(*(each.unsqueeze(2) for each in query))
    return sees(queries, Tokens(*(each.unsqueeze(1) for each in key)), context)


def token_positions(position_BL: Tensor, document_BL: Tensor) -> Tensor:
    """Positions that restart with each document, int64 (B, L), from those that do not."""
    first_BL = torch.where(_starts(document_BL), position_BL, 0).cummax(1).values
    return position_BL - first_BL


def documents(position_BL: Tensor) -> Tensor:
    """Number of each token's document, int64 (B, L), read off positions that restart at 0.

    A trailing run of zeros is padding: all of it becomes one document of its own, so that it
    meets no token. (A last document of one token looks like a run of one.)
    """
    starts_BL = position_BL == 0
    inside_BL = starts_BL.flip(1).long().cumprod(1).flip(1).bool()  # of the trailing run
    follows_BL = F.pad(inside_BL[:, :-1], (1, 0))
    return (starts_BL & ~(inside_BL & follows_BL)).long().cumsum(1) - 1


def runs(tokens: Tokens) -> Tensor:
    """Number of each token's block within its row, int64; blocks of two documents differ."""
    return (_starts(tokens.block) | _starts(tokens.document)).long().cumsum(1) - 1


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
    if block_size < 1 or origin not in get_args(Origin):
        raise UsageError(
            f"block_size {block_size} and origin {origin!r}: a block has at least one token, and "
            f"an origin is one of {', '.join(get_args(Origin))}"
        )
    position_BL = torch.arange(length).unsqueeze(0)
    document_BL = None if document_L is None else document_L.unsqueeze(0)
    if document_BL is not None:
        position_BL = token_positions(position_BL, document_BL)
    clean = Tokens.clean(
        position_BL, torch.ones_like(position_BL, dtype=torch.bool), block_size,
        origin=prompt_length if origin == "answer" else 0, document=document_BL,
    )  # fmt: skip
    both = clean.join(clean.as_target())
    return may_attend(both, both, context)[0]


def _starts(value_BL: Tensor) -> Tensor:
    """Bool (B, L), True where a value differs from the one before it, and in column 0."""
    return F.pad(value_BL[:, 1:] != value_BL[:, :-1], (1, 0), value=True)
