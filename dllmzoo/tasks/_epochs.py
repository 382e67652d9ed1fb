"""Draws from a fixed set, each item once an epoch, as a function of the key alone."""

from __future__ import annotations

from dataclasses import replace

import torch

from dllmzoo.records import Key


def epoch_positions(size: int, num: int, key: Key) -> list[int]:
    """Positions of the items of one round: its slice of the endless row of shuffled epochs.

    Round r takes the numbers [r * num, (r + 1) * num) of the row, so nothing repeats before every
    item was drawn, and a resumed run goes on where it stopped without any state.

    Args:
        size: items there are, >= 1.
        num: items of every round.
        key: of the round.
    """
    first = key.round * num
    chosen: list[int] = []
    while len(chosen) < num:
        epoch, start = divmod(first + len(chosen), size)
        shuffle = replace(key.sub("epoch"), round=epoch).generator()
        order = torch.randperm(size, generator=shuffle).tolist()
        chosen += order[start : start + num - len(chosen)]
    return chosen
