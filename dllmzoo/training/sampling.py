"""Prompts and answers of a round: this process's share, rolled out in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dllmzoo import protocols
from dllmzoo.models._sharded import in_step
from dllmzoo.records import Key, Prompts, Rollout, join, take
from dllmzoo.training.lengths import narrowed, widened, with_reads
from dllmzoo.training.method import Budget, Learner, Method


def draw(method: Method, budget: Budget, learner: Learner, key: Key) -> Prompts:
    """This process's share of the round's prompts, with given answers: whole groups.

    Where they take several calls of the sampler, prompts of like length come together.
    """
    accelerator, codec = learner.accelerator, learner.codec
    examples = method.task.draw(budget.prompts, key)
    mine, world = list(range(budget.prompts)), accelerator.num_processes
    several = budget.prompts * budget.group_size > budget.rollout_batch * world
    if world > 1 or several:
        work = [len(codec.prompt_ids(method.task.prompt(example))) for example in examples]
        mine = share_out(work, world)[accelerator.process_index]
        if several:
            mine.sort(key=lambda item: -work[item])  # the longest first: it needs the most memory
    length = method.sampler.answer_length  # type: ignore[attr-defined]
    prompts = codec.prompts(
        method.task, [examples[i] for i in mine], budget.group_size, answer_length=length
    )
    group_B = torch.tensor(mine, device=codec.device).repeat_interleave(budget.group_size)
    within_B = torch.arange(budget.group_size, device=codec.device).repeat(len(mine))
    sample_B = group_B * budget.group_size + within_B
    prompts = replace(prompts, group_B=group_B, sample_B=sample_B)
    return learner.codec.with_given(prompts, method.task, method.sampler, key.sub("given"))


def share_out(work: Sequence[float], parts: int) -> list[list[int]]:
    """Item numbers of each part: equally many items, sums of work as even as a greedy rule makes.

    The items go from the longest to the shortest, each to the part with the least work that has
    room. Answers have one canvas and group sizes are equal, so prompt lengths alone decide.

    Args:
        work: of each item; equal work shares out in turn.
        parts: divides the number of items.

    Example:
        >>> share_out([9, 1, 1, 9], 2)
        [[0, 1], [2, 3]]
    """
    room = len(work) // parts
    items: list[list[int]] = [[] for _ in range(parts)]
    total = [0.0] * parts
    for item in sorted(range(len(work)), key=lambda i: (-work[i], i)):
        open_parts = [part for part in range(parts) if len(items[part]) < room]
        least = min(open_parts, key=lambda part: (total[part], part))
        items[least].append(item)
        total[least] += work[item]
    return [sorted(each) for each in items]


def sample(
    sampler: protocols.Sampler, policy: protocols.Policy, prompts: Prompts, key: Key, batch: int,
    each: Callable[[Rollout], object] | None = None,
) -> Rollout:  # fmt: skip
    """Roll out at most `batch` rows at a time; a row's answer does not depend on the batch.

    `each` is shown every batch before the next one is sampled. A sampler that `refills` is given
    all rows at once, so that finished ones make room for others.
    """
    made = []
    with in_step(policy) as network:
        if getattr(sampler, "refills", False):
            sampler, batch = partial(sampler, width=batch), len(prompts.tokens_BL)  # type: ignore
        for part in batches(prompts.group_B, batch):
            rows = take(prompts, part)
            made.append(widened(sampler(network, narrowed(rows), key), rows))
            if each is not None:
                each(made[-1])
    if any(one.reads for one in made):
        made = [with_reads(one) for one in made]
    return join(made)


def batches(group_B: Tensor, batch: int) -> list[Tensor]:
    """Row numbers of each call: whole groups, whose rows share work, where one fits.

    Example:
        >>> [rows.tolist() for rows in batches(torch.tensor([0, 0, 1, 1, 2, 2]), 5)]
        [[0, 1, 2, 3], [4, 5]]
    """
    parts: list[Tensor] = []
    for group in _runs(group_B):
        if parts and len(parts[-1]) + len(group) <= batch:
            parts[-1] = torch.cat([parts[-1], group])
        else:
            parts += group.split(batch)
    return parts


def _runs(group_B: Tensor) -> tuple[Tensor, ...]:
    """Row numbers of each run of equal groups."""
    lengths = torch.unique_consecutive(group_B, return_counts=True)[1].tolist()
    return torch.arange(len(group_B)).split(lengths) if lengths else (torch.arange(0),)


def together(sampler: protocols.Sampler) -> Any:
    """The sampler, whose calls all processes make and end together."""
    return _Together(sampler)


class _Together:
    """A sampler whose calls all processes make and end together, as sharded parameters need.

    Args:
        sampler: may run the network a different number of times on each process.
    """

    def __init__(self, sampler: protocols.Sampler) -> None:
        self.sampler = sampler

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)

    def __call__(self, policy: protocols.Policy, prompts: Prompts, key: Key) -> Rollout:
        """What the sampler makes of the prompts."""
        with in_step(policy) as network:
            return self.sampler(network, prompts, key)


def answers(tokens_BL: Tensor, rollout: Rollout) -> Tensor:
    """The answer slots, (B, N)."""
    return tokens_BL[:, -rollout.canvas :]
