"""Which block a step works on and how many tokens it commits."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from dllmzoo.errors import UsageError

if TYPE_CHECKING:
    from dllmzoo.protocols import Schedule


def check_canvas(answer_length: int, block_length: int, num_steps: int) -> None:
    """Refuse numbers that do not fit together, naming the nearest that do.

    Raises:
        UsageError: a block longer than the answer, or fewer steps than blocks.
    """
    if block_length > answer_length:
        raise UsageError(
            f"block_length {block_length} is longer than answer_length {answer_length}; use "
            f"block_length: {answer_length} (one block) or answer_length: {block_length}"
        )
    blocks = ceil(answer_length / block_length)
    if num_steps < blocks:
        raise UsageError(
            f"steps {num_steps} is fewer than the {blocks} blocks of answer_length "
            f"{answer_length} and block_length {block_length}, and each block needs a step; use "
            f"steps: {blocks} or block_length: {ceil(answer_length / num_steps)}"
        )


def plan_steps(
    answer_length: int, block_length: int, num_steps: int | None, schedule: Schedule
) -> list[tuple[int, int]]:
    """(block, tokens to commit) of every step; every slot is committed exactly once.

    Blocks lie end to end from the first answer slot, the last may be shorter. Steps are shared
    evenly over blocks, what does not divide going to the first blocks; inside a block the
    schedule decides. Steps that commit nothing keep their place. Without a number of steps each
    token has a step of its own.

    Raises:
        UsageError: the schedule's commits do not add up to a block.
    """
    if num_steps is None:
        return [(slot // block_length, 1) for slot in range(answer_length)]
    blocks = ceil(answer_length / block_length)
    share, extra = divmod(num_steps, blocks)
    plan = []
    for block in range(blocks):
        steps = share + (block < extra)
        length = min(block_length, answer_length - block * block_length)
        plan += [(block, count) for count in shared(length, steps, schedule)]
    return plan


def shared(length: int, steps: int, schedule: Schedule) -> list[int]:
    """`length` tokens over `steps` steps, as the schedule says.

    Raises:
        UsageError: the schedule's numbers do not add up.
    """
    counts = list(schedule.commits(length, steps))
    if len(counts) != steps or sum(counts) != length or min(counts) < 0:
        raise UsageError(
            f"commits of {type(schedule).__name__} for {length} tokens in {steps} steps are "
            f"{counts}; there must be {steps} numbers >= 0 that add up to {length}"
        )
    return counts
