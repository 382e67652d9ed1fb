"""What goes through a block model: one stream, or a clean one with a noised one behind it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dllmzoo.models._layers import Slots, positions
from dllmzoo.models._staircase import Context, Tokens, may_attend


class Part(NamedTuple):
    """Some queries and the keys they read: columns start to stop of the input, keys up to `keys`.

    `mask` is bool (B, 1, Q, K), or None where every query sees every key.
    """

    start: int
    stop: int
    keys: int
    mask: Tensor | None


class Streams(NamedTuple):
    """What goes through the layers: one stream, or the clean one with the noised one behind it.

    Args:
        ids: int64 (B, L) of both.
        position: int64, of both.
        parts: who reads whom.
        wanted: bool (B, L), slots whose logits are asked for; None = those from `first` on.
        first: columns of the clean stream that have no logits.
    """

    ids: Tensor
    position: Tensor
    parts: tuple[Part, ...]
    wanted: Tensor | None
    first: int = 0


def token_positions(
    input_ids: Tensor, attend_BL: Tensor | None, document_ids: Tensor | None
) -> Tensor:
    """Real tokens before each slot, in its document, int64 (B, L)."""
    position_BL = positions(input_ids, attend_BL).expand(input_ids.shape)
    if document_ids is None:
        return position_BL
    starts_BL = F.pad(document_ids[:, 1:] != document_ids[:, :-1], (1, 0), value=True)
    first_BL = torch.where(starts_BL, position_BL, 0).cummax(1).values
    return position_BL - first_BL


def two_streams(
    input_ids: Tensor, target_ids: Tensor, clean: Tokens, context: Context,
    logits_at: Tensor | None,
) -> Streams:  # fmt: skip
    """The clean stream as far as it is read, and the blocks of the noised one that are wanted."""
    wanted_BL = clean.real if logits_at is None else logits_at.to(input_ids.device).bool()
    chosen_BL = torch.ones_like(clean.real)
    if logits_at is not None:
        chosen_BL = _blocks_with(wanted_BL & clean.real, clean)
    most = max(int(chosen_BL.sum(1).max()), 1)
    index_BL = (~chosen_BL).long().argsort(dim=1, stable=True)[:, :most]
    target = clean.take(index_BL, chosen_BL.gather(1, index_BL)).as_target()
    read_BL = (may_attend(target, clean)[:, 0] & target.real.unsqueeze(2)).any(1) & clean.real
    columns = torch.arange(input_ids.shape[1], device=input_ids.device)
    Lc = int(torch.where(read_BL, columns + 1, 0).max())
    clean = Tokens(*(each.expand(len(input_ids), -1)[:, :Lc] for each in clean))
    both = clean.join(target)
    parts = [Part(0, Lc, Lc, may_attend(clean, clean, context))] if Lc else []
    parts.append(Part(Lc, Lc + most, Lc + most, may_attend(target, both, context)))
    ids = torch.cat([input_ids[:, :Lc], target_ids.gather(1, index_BL)], 1)
    wanted = None
    if logits_at is not None:
        asked = wanted_BL.gather(1, index_BL) & chosen_BL.gather(1, index_BL)
        wanted = F.pad(asked, (Lc, 0))
    return Streams(ids, both.position, tuple(parts), wanted, Lc)


def _blocks_with(wanted_BL: Tensor, tokens: Tokens) -> Tensor:
    """Bool (B, L): real tokens of blocks that hold a wanted slot."""
    one = (tokens.block.unsqueeze(2) == tokens.block.unsqueeze(1)) & (
        tokens.document.unsqueeze(2) == tokens.document.unsqueeze(1)
    )
    return (one & wanted_BL.unsqueeze(1)).any(2) & tokens.real


def of_slots(streams: Streams, slots: Slots) -> Part:
    """The part of the wanted slots: their rows of the last part's mask."""
    part = streams.parts[-1]
    if part.mask is None:
        return part
    rows = F.pad(part.mask[:, 0].expand(slots.rows, -1, -1), (0, 0, part.start, 0))
    packed = slots.pack(slots.take(rows))
    return part._replace(mask=(packed | ~packed.any(2, keepdim=True)).unsqueeze(1))
