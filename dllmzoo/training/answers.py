"""Answers to held-out examples, each once and in order, on any number of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy, Sampler, Task
from dllmzoo.records import Example, Key
from dllmzoo.training.prompts import Codec

APART = 2**32
"""Numbers of random streams between two samples of one example."""

Judge = Callable[[list[str], list[Example]], list[Any]]
"""Texts and their examples in, one verdict for each out."""


@dataclass(frozen=True)
class Answer:
    """One answer to one example.

    Args:
        item: place of the example in the list that was given.
        sample: which answer to it, from 0.
        text: up to the first end token.
        verdict: what the judge says of it.
    """

    item: int
    sample: int
    text: str
    verdict: Any


def answers(
    policy: Policy,
    codec: Codec,
    task: Task,
    sampler: Sampler,
    judge: Judge,
    *,
    examples: Sequence[Example],
    batch: int,
    samples: int = 1,
    seed: int = 0,
    start: int = 0,
    accelerator: Any = None,
) -> Iterator[tuple[list[Answer], int]]:
    """Answers in order of example, then sample, some at a time, and the forwards that they took.

    An answer depends on the seed, its example's place in the list and its sample's number: not on
    the batch, the number of processes, `start`, nor on how many examples or samples there are. All
    processes see all answers. Those with nothing left to do answer a row for nothing, so that
    each of them runs the network as often as the others (sharded parameters need that).

    Args:
        policy: the network, unwrapped.
        codec: text to tokens and back.
        task: prompts.
        sampler: makes the answers.
        judge: called with the answers of a process, before they are shared.
        examples: all of them, on every process.
        batch: rows of one sampler call.
        samples: answers to each example.
        seed: of the random choices.
        start: answers to leave out at the beginning, those of an earlier sitting.
        accelerator: shares the rows among processes; None = one process.

    Yields:
        Answers, and the model rows that ran for them.

    Raises:
        UsageError: more steps for a block than it has tokens.
    """
    refuse_idle_steps(sampler, policy)
    rank, world = 0, 1
    if accelerator is not None:
        rank, world = accelerator.process_index, accelerator.num_processes
    policy.eval()  # type: ignore[attr-defined]
    key = Key(seed, 0, "evaluate")
    total = len(examples) * samples
    while start < total:
        rows = range(start, min(start + batch * world, total))
        mine = rows[rank::world]
        texts, forwards = _texts(
            policy, codec, task, sampler, [divmod(row, samples) for row in mine or rows[:1]],
            examples, key,
        )  # fmt: skip
        if not mine:
            texts, forwards = [], 0
        verdicts = judge(texts, [examples[row // samples] for row in mine]) if mine else []
        found = [
            Answer(*divmod(row, samples), text, verdict)
            for row, text, verdict in zip(mine, texts, verdicts, strict=True)
        ]
        if world > 1:
            from accelerate.utils import gather_object

            found = sorted(gather_object(found), key=lambda each: (each.item, each.sample))
            forwards = sum(gather_object([forwards]))
        yield found, forwards
        start = rows.stop


@torch.no_grad()
def _texts(
    policy: Policy, codec: Codec, task: Task, sampler: Sampler, asked: list[tuple[int, int]],
    examples: Sequence[Example], key: Key,
) -> tuple[list[str], int]:  # fmt: skip
    """Answers of the (item, sample) pairs, and the model rows that ran."""
    length: int = sampler.answer_length  # type: ignore[attr-defined]
    prompts = codec.prompts(task, [examples[item] for item, _ in asked], 1, answer_length=length)
    sample_B = torch.tensor([item + sample * APART for item, sample in asked])
    prompts = replace(prompts, sample_B=sample_B.to(prompts.sample_B.device))
    prompts = codec.with_given(prompts, task, sampler, key.sub("given"))
    rollout = sampler(policy, prompts, key)
    return codec.texts(rollout.tokens_BL[:, -length:]), rollout.forwards


def refuse_idle_steps(sampler: Any, policy: Policy) -> None:
    """Refuse more steps for a block of the network than it has tokens.

    Raises:
        UsageError: says how many a block has.
    """
    size, steps = policy.block_size, getattr(sampler, "steps_per_block", None)
    if size is not None and steps is not None and steps > size:
        raise UsageError(
            f"{steps} steps for a block, and the blocks of this network have {size} tokens: each "
            f"step commits one at least, so those after the first {size} would do nothing; use "
            f"steps_per_block: {size} or fewer (`evaluate.steps`, `--steps`)"
        )
