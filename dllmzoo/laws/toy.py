"""A policy small enough to enumerate, and the exact numbers that estimators are compared with.

Two tokens, n slots, one free logit per state, slot and token. With a random order that no score
decides, every trajectory, its probability and the policy gradient are sums of a few terms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dllmzoo.laws.inputs import played
from dllmzoo.laws.network import ToyOutput
from dllmzoo.records import Key, Prompts, Rollout, Views, take

NEVER = -1e4
"""Logit of the mask token: exp underflows to 0 exactly, and 0 times it is 0, not nan."""


class TableDenoiser(nn.Module):
    """A free table of logits over two tokens, one row per state and slot; float64.

    The last `slots` positions are the answer; what stands before them does not matter. The mask
    token is 2, and its probability is exactly 0.

    Args:
        slots: n, >= 1; the table has 3^n * n * 2 numbers.
        seed: of the table.
        scale: standard deviation of the logits.
    """

    mask_id = 2
    stop_ids: tuple[int, ...] = ()
    block_size: int | None = None

    def __init__(self, slots: int = 3, seed: int = 0, scale: float = 1.0) -> None:
        """A random table."""
        super().__init__()
        self.slots = slots
        generator = Key(seed, 0, "law/table").generator()
        table = torch.randn(3**slots, slots, 2, generator=generator, dtype=torch.float64)
        self.table = nn.Parameter(scale * table)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, *,
        target_ids: Tensor | None = None, context: str = "block_causal",
        logits_at: Tensor | None = None,
    ) -> ToyOutput:  # fmt: skip
        """Logits of the table's row; 0 at the positions before the answer."""
        state_BN = input_ids[:, -self.slots :]
        index_B = (state_BN * 3 ** torch.arange(self.slots)).sum(1)
        answer = self.table[index_B]
        before = answer.new_zeros(len(answer), input_ids.shape[1] - self.slots, 2)
        words = torch.cat([before, answer], 1)
        logits_BLV = torch.cat([words, torch.full_like(words[..., :1], NEVER)], 2)
        return ToyOutput(logits_BLV if logits_at is None else logits_BLV[logits_at])


def answers(slots: int) -> Tensor:
    """All 2^n answers, (2^n, n) int64."""
    return torch.tensor(list(itertools.product((0, 1), repeat=slots)))


def orders(counts: Sequence[int]) -> Tensor:
    """All ways to commit `counts[s]` slots at step s: the step of each slot, (orders, n) int64."""
    steps = [s for s, count in enumerate(counts) for _ in range(count)]
    return torch.tensor(sorted(set(itertools.permutations(steps))))


def trajectories(counts: Sequence[int] = (1, 1, 1), repeat: int = 1) -> Rollout:
    """Every trajectory once: all orders times all answers, T = len(counts).

    Args:
        counts: slots committed at each step; 0 makes a step that commits nothing.
        repeat: G; the rows are every tuple of G trajectories, each tuple a group.
    """
    reveal_BN, tokens_BN = orders(counts), answers(sum(counts))
    pairs = torch.cartesian_prod(torch.arange(len(reveal_BN)), torch.arange(len(tokens_BN)))
    index = torch.arange(len(pairs))
    groups = torch.cartesian_prod(*[index] * repeat).view(-1, repeat)
    rows = pairs[groups.flatten()]
    return played(
        tokens_BN[rows[:, 1]], reveal_BN[rows[:, 0]], num_steps=len(counts), group_size=repeat
    )


def answered(tokens_N: Tensor, rows: int) -> Rollout:
    """One answer many times, each row with a sample number of its own."""
    N = len(tokens_N)
    reveal_BN = torch.arange(N).expand(rows, N)
    return played(tokens_N.expand(rows, N), reveal_BN, group_size=rows)


def logprobs(policy: TableDenoiser, source: Rollout, views: Views) -> Tensor:
    """logprob_BKL of views in float64, differentiable in the table; the scorer's definition."""
    B, K, L = views.score_BKL.shape
    final_BKL = source.tokens_BL.unsqueeze(1).expand(B, K, L)
    shown_BKL = final_BKL if views.shown_BKL is None else views.shown_BKL
    target_BKL = final_BKL if views.target_BKL is None else views.target_BKL
    noised = shown_BKL.masked_fill(views.hide_BKL, policy.mask_id).reshape(B * K, L)
    logits_BKLV = policy(noised).logits.view(B, K, L, 3) / views.temperature
    logprob_BKL = logits_BKLV.log_softmax(-1).gather(3, target_BKL.unsqueeze(3)).squeeze(3)
    return torch.where(views.score_BKL, logprob_BKL, 0)


def guesses(policy: TableDenoiser, source: Rollout) -> Tensor:
    """One-shot guess of the state before every step, (B, T, n): hidden slots at their argmax."""
    B, T, n = len(source.tokens_BL), source.num_steps, policy.slots
    hide_BKL = source.hidden_before(torch.arange(T).expand(B, T))
    tokens_BKL = source.tokens_BL.unsqueeze(1).expand_as(hide_BKL)
    noised = tokens_BKL.masked_fill(hide_BKL, policy.mask_id)
    best = policy(noised.flatten(0, 1)).logits.argmax(-1).view(B, T, -1)
    return torch.where(hide_BKL, best, tokens_BKL)[..., -n:]


def chain_logprob(policy: Any, source: Rollout, *, context: str | None = None) -> Tensor:
    """Log of the probability of each row's tokens given its order, (B,), one pass a step.

    Args:
        policy: any that has its logits in the precision that is wanted.
        source: what was committed when; slots never committed count nothing.
        context: None = every state is the policy's only input; else it is a noised stream behind
            the clean answer, with this attention in the clean one.
    """
    tokens_BL, attend_BL = source.tokens_BL, source.attend_BL
    total_B = torch.zeros(())
    for step in range(source.num_steps):
        hidden_BL = source.hidden_before(torch.full((len(tokens_BL), 1), step))[:, 0]
        state_BL = tokens_BL.masked_fill(hidden_BL, policy.mask_id)
        if context is None:
            logits_BLV = policy(state_BL, attend_BL).logits
        else:
            logits_BLV = policy(tokens_BL, attend_BL, target_ids=state_BL, context=context).logits
        logprob_BL = logits_BLV.log_softmax(-1).gather(2, tokens_BL.unsqueeze(2)).squeeze(2)
        total_B = total_B + torch.where(source.reveal_BL == step, logprob_BL, 0).sum(1)
    return total_B


def block_orders(source: Rollout) -> Rollout:
    """The first row once for each way to write its slots one by one, block after block."""
    slot_N = source.answer_BL[0].nonzero()[:, 0]
    block_N = source.block_BL[0, slot_N]
    inside = [slot_N[block_N == b].tolist() for b in block_N.unique()]
    every = [list(itertools.permutations(slots)) for slots in inside]
    orders = [list(itertools.chain(*chosen)) for chosen in itertools.product(*every)]
    rows = take(source, torch.zeros(len(orders), dtype=torch.long))
    reveal_BL = torch.full_like(rows.reveal_BL, -1)
    step_N = torch.arange(len(slot_N)).expand(len(orders), -1)
    reveal_BL = reveal_BL.scatter(1, torch.tensor(orders), step_N)
    return replace(rows, reveal_BL=reveal_BL, num_steps=len(slot_N))


def order_prob(counts: Sequence[int]) -> float:
    """Probability of one order when every order is equally likely."""
    return math.prod(math.factorial(count) for count in counts) / math.factorial(sum(counts))


def probability(policy: TableDenoiser, source: Rollout, counts: Sequence[int]) -> Tensor:
    """Probability of each row's trajectory under a uniformly random order, (B,)."""
    return chain_logprob(policy, source).exp() * order_prob(counts)


def index_of(tokens: Tensor) -> Tensor:
    """Row of `answers` that holds each answer; the last axis is the slots."""
    weight_N = 2 ** torch.arange(tokens.shape[-1] - 1, -1, -1)
    return (tokens * weight_N).sum(-1)


def exact_gradient(
    policy: TableDenoiser, reward_X: Tensor, counts: Sequence[int] = (1, 1, 1)
) -> Tensor:
    """Gradient of the expected reward in the table, summed over all trajectories.

    Args:
        policy: the policy.
        reward_X: reward of each answer, in the order of `answers`.
        counts: slots committed at each step; every order is equally likely.
    """
    every = trajectories(counts)
    reward_B = reward_X[index_of(every.tokens_BL[:, -policy.slots :])]
    expected = (probability(policy, every, counts) * reward_B).sum()
    return torch.autograd.grad(expected, policy.table)[0]


def elbo(policy: TableDenoiser, tokens_N: Tensor) -> Tensor:
    """The exact ELBO of an answer: its chain log-prob averaged over all orders; a scalar."""
    reveal_BN = orders([1] * policy.slots)
    source = played(tokens_N.expand(len(reveal_BN), -1), reveal_BN)
    return chain_logprob(policy, source).mean()


def as_prompts(source: Rollout) -> Prompts:
    """The prompts of a rollout, to sample from again."""
    width = int((~source.answer_BL[0]).sum())
    return Prompts(
        source.tokens_BL[:, :width], source.attend_BL[:, :width], source.group_B, source.sample_B,
        source.examples,
    )  # fmt: skip
