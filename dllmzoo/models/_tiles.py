"""Attention in tiles: a run of queries reads only the columns of keys that some of them see."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dllmzoo.errors import ModelError
from dllmzoo.models._staircase import Context, Tokens, may_attend, sees

TILE = 128
"""Queries of a tile. Fewer waste time on calls, more on pairs that nobody attends to."""


class Part(NamedTuple):
    """Queries from column start to stop, and the keys that they read.

    Args:
        start, stop: columns of the queries.
        spans: columns (from, to) of the keys, which are read after each other.
        mask: bool (B, 1, Q, K) over them, or of one row; a BlockMask; None = all is seen.
    """

    start: int
    stop: int
    spans: tuple[tuple[int, int], ...]
    mask: Any

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that are computed for each row."""
        return (self.stop - self.start) * sum(stop - start for start, stop in self.spans)

    def keys(self, k_BHLE: Tensor) -> Tensor:
        """What this part reads of keys or values."""
        read = [k_BHLE[:, :, start:stop] for start, stop in self.spans]
        return read[0] if len(read) == 1 else torch.cat(read, 2)


def tiles(
    query: Tokens, key: Tokens, context: Context, *, query_seam: int = 0, key_seam: int = 0
) -> tuple[Part, ...]:
    """Dense masks, cut so that what nobody sees is hardly computed.

    A query that would see nothing sees every key of its tile, so that nothing becomes NaN.

    Args:
        query: tokens that ask.
        key: tokens that are read.
        context: attention inside the clean stream.
        query_seam: columns of the clean stream in `query` if the other stream follows them.
        key_seam: the same of `key`.
    """
    Q = query.length
    cuts = [0] if Q <= TILE else [*range(0, query_seam, TILE), *range(query_seam, Q, TILE)]
    edges = list(zip(cuts, [*cuts[1:], Q], strict=True))
    allowed = [may_attend(query.columns(*edge), key, context) for edge in edges]
    needed = torch.stack([each.flatten(0, 1).any(0) for each in allowed]).cpu()
    found = []
    for (start, stop), seen, columns in zip(edges, allowed, needed, strict=True):
        spans = tuple(_spans(columns, key_seam)) or ((0, 1),)
        mask = torch.cat([seen[:, :, a:b] for a, b in spans], 2)
        mask = mask | ~mask.any(2, keepdim=True)
        found.append(Part(start, stop, spans, mask.unsqueeze(1)))
    whole = torch.stack([part.mask.all() for part in found]).tolist()
    return tuple(
        part._replace(mask=None) if all_seen else part
        for part, all_seen in zip(found, whole, strict=True)
    )


def _spans(needed: Tensor, seam: int) -> Iterator[tuple[int, int]]:
    """The columns of each stream from the first needed one to the last."""
    for start, stop in ((0, seam), (seam, len(needed))):
        columns = needed[start:stop].nonzero().squeeze(1)
        if len(columns):
            yield start + int(columns[0]), start + int(columns[-1]) + 1


def block_mask(query: Tokens, key: Tokens, context: Context, rows: int) -> tuple[Part, ...]:
    """The same attention as one FlexAttention mask of all queries and keys of `rows` rows."""
    from torch.nn.attention.flex_attention import create_block_mask

    query, key = query.expand(rows), key.expand(rows)

    def allowed(row: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        asks = Tokens(*(each[row, q] for each in query))
        return sees(asks, Tokens(*(each[row, k] for each in key)), context)

    mask = create_block_mask(
        allowed, rows, None, query.length, key.length, device=query.block.device
    )
    return (Part(0, query.length, ((0, key.length),), mask),)


def attend(
    q_BHLE: Tensor, k_BHLE: Tensor, v_BHLE: Tensor, parts: tuple[Part, ...], grouped: bool
) -> Tensor:
    """What the queries read, (B, H, L, E).

    Args:
        q_BHLE: queries.
        k_BHLE: keys, which may have fewer heads.
        v_BHLE: values.
        parts: `tiles` or `block_mask` of them.
        grouped: keys have fewer heads than queries.
    """
    mixed = []
    for part in parts:
        q, k, v = q_BHLE[:, :, part.start : part.stop], part.keys(k_BHLE), part.keys(v_BHLE)
        if part.mask is None or isinstance(part.mask, Tensor):
            mixed.append(
                F.scaled_dot_product_attention(q, k, v, attn_mask=part.mask, enable_gqa=grouped)
            )
        else:
            mixed.append(_flex(q, k, v, part.mask, grouped))
    return mixed[0] if len(mixed) == 1 else torch.cat(mixed, 2)


def _flex(q: Tensor, k: Tensor, v: Tensor, mask: Any, grouped: bool) -> Tensor:
    """FlexAttention: compiled where there is a kernel, in plain operations on a CPU."""
    if q.device.type != "cpu":
        return _compiled()(q, k, v, block_mask=mask, enable_gqa=grouped)
    if q.requires_grad or k.requires_grad or v.requires_grad:
        raise ModelError(
            "flex_attention has no backward pass on a CPU; load the model with "
            "attn_implementation='sdpa', or call it under torch.no_grad()"
        )
    from torch.nn.attention.flex_attention import flex_attention

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        return flex_attention(q, k, v, block_mask=mask, enable_gqa=grouped)  # type: ignore


@functools.cache
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)
