"""Prompts and answers of a round: this process's share, rolled out in batches."""

from __future__ import annotations

import torch
from torch import Tensor

from dllmzoo import protocols
from dllmzoo.records import Key, Prompts, Rollout, join, take
from dllmzoo.training.method import Budget, Learner, Method


def draw(method: Method, budget: Budget, learner: Learner, key: Key) -> Prompts:
    """This process's share of the round's prompts, with given answers: whole groups, in order."""
    accelerator = learner.accelerator
    share = budget.prompts // accelerator.num_processes
    first = share * accelerator.process_index
    examples = method.task.draw(budget.prompts, key)[first : first + share]
    length = method.sampler.answer_length  # type: ignore[attr-defined]
    prompts = learner.codec.prompts(
        method.task, examples, budget.group_size, answer_length=length, first=first
    )
    return learner.codec.with_given(prompts, method.task, method.sampler, key.sub("given"))


def sample(
    sampler: protocols.Sampler, policy: protocols.Policy, prompts: Prompts, key: Key, batch: int
) -> Rollout:
    """Roll out `batch` rows at a time; a row's answer does not depend on the batch."""
    rows = torch.arange(len(prompts.tokens_BL))
    return join([sampler(policy, take(prompts, part), key) for part in rows.split(batch)])


def answers(tokens_BL: Tensor, rollout: Rollout) -> Tensor:
    """The answer slots, (B, N)."""
    return tokens_BL[:, -rollout.canvas :]
