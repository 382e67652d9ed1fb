"""What ran through the network, as numbers of rows and columns for the FLOP count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dllmzoo.records import Rollout, Views


class Read(NamedTuple):
    """Forwards of one shape.

    Args:
        rows: of all of them together.
        length: L, columns of a row, padding included.
        logits: slots of all rows together whose logits were asked for.
        backward: a backward pass followed.
        target: columns of the noised stream; 0 = there was none.
        keys: columns that each query met, those of a cache included; None = L.
    """

    rows: int
    length: int
    logits: int
    backward: bool = False
    target: int = 0
    keys: int | None = None


def of_rollout(rollout: Rollout, sampler: Any) -> Iterator[Read]:
    """The forwards that made a rollout; equal shapes together."""
    total: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for rows, queries, keys, logits in rollout.reads or whole_rows(rollout, sampler):
        shape = total[queries, keys]
        shape[0] += rows
        shape[1] += logits
    for (queries, keys), (rows, logits) in total.items():
        yield Read(rows, queries, logits, keys=None if keys == queries else keys)


def whole_rows(rollout: Rollout, sampler: Any) -> tuple[tuple[int, int, int, int], ...]:
    """`Rollout.reads` of forwards that were all of whole rows, half a block's logits in each."""
    block = getattr(sampler, "block_length", None) or rollout.canvas
    length = rollout.tokens_BL.shape[1]
    return ((rollout.forwards, length, length, rollout.forwards * block // 2),)


def of_views(views: Views, rollout: Rollout | None, micro_batch: int | None) -> Iterator[Read]:
    """The forwards that score views: each view that scores something is a row.

    With two streams a forward of `micro_batch` rows is as wide as its widest row: the blocks that
    hold a scored slot, and the clean tokens up to the last of them.

    Args:
        views: what is scored.
        rollout: whose views; None = blocks are not known, so both streams count in full.
        micro_batch: rows of one forward; None = all.
    """
    at_BKL = views.score_BKL
    rows, logits = int(at_BKL.any(2).sum()), int(at_BKL.sum())
    L = at_BKL.shape[2]
    if views.layout == "full" or rollout is None or rows == 0:
        yield Read(rows, L, logits, target=0 if views.layout == "full" else L)
        return
    row_R, view_R = at_BKL.any(2).nonzero(as_tuple=True)
    at_RL = at_BKL[row_R, view_R]
    noised_RL = _in_scored_blocks(at_RL, rollout.block_BL[row_R])
    columns = torch.arange(1, L + 1, device=at_RL.device)
    shapes = torch.stack(
        [noised_RL.sum(1), torch.where(noised_RL, columns, 0).amax(1), at_RL.sum(1)], 1
    )
    for part in shapes.split(micro_batch or rows):
        target, end = part[:, :2].amax(0).tolist()
        yield Read(len(part), end, int(part[:, 2].sum()), target=target)


def _in_scored_blocks(at_RL: Tensor, block_RL: Tensor) -> Tensor:
    """Bool (R, L): real tokens of blocks that hold a scored slot."""
    number_RL = block_RL.clamp(min=0)
    empty = at_RL.new_zeros(len(at_RL), int(number_RL.max()) + 1, dtype=torch.long)
    real_RL = block_RL >= 0
    scored = empty.scatter_add(1, number_RL, (at_RL & real_RL).long())
    return (scored.gather(1, number_RL) > 0) & real_RL
