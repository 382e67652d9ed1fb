"""Which denoising steps are trained: the selector's choice, from states or from their credit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dllmzoo.records import Key, Rewards, Rollout, Steps
from dllmzoo.training.grading import Grader
from dllmzoo.training.method import Method


@dataclass(frozen=True)
class Choice:
    """Chosen steps, and what was found out about them on the way.

    Args:
        steps: None where the method has no selector.
        advantage_BA: of the chosen steps, where the selector looks at advantages; else None.
        guess_BKL: the drafts before the chosen steps, with `advantage_BA`.
        previews: their rewards.
    """

    steps: Steps | None = None
    advantage_BA: Tensor | None = None
    guess_BKL: Tensor | None = None
    previews: Rewards | None = None


def choose(method: Method, rollout: Rollout, grader: Grader, key: Key) -> Choice:
    """The selector's steps.

    A selector that ranks by advantage sees the advantages of all T steps, which come from the
    drafts that the sampler stored; those of the chosen steps are then gathered. Only such a one
    waits for the rewards.
    """
    selector = method.selector
    if selector is None:
        return Choice()
    if not getattr(selector, "needs_advantage", False):
        return Choice(selector(rollout, key))
    every = every_step(rollout)
    drafts = rollout.draft_before(every.start_BK)
    rewards, previews = grader.finals.rewards, None
    if method.advantage.needs_previews:
        assert drafts is not None, "checks let only samplers that store drafts through"
        previews = grader.guesses(rollout, drafts).rewards
    advantage_BA = method.advantage(rewards, previews, every, rollout, key.round)
    advantage_BT = advantage_BA.expand(-1, rollout.num_steps)
    steps = selector(rollout, key, advantage_BT)  # type: ignore[call-arg]
    column_BK = steps.start_BK.clamp(max=rollout.num_steps - 1)
    return Choice(
        steps,
        advantage_BT.gather(1, column_BK),
        None if drafts is None else _columns(drafts, column_BK),
        None if previews is None else _chosen(previews, column_BK),
    )


def every_step(rollout: Rollout) -> Steps:
    """All T steps in time order; weight 0 where a step committed nothing."""
    B, T = len(rollout.tokens_BL), rollout.num_steps
    start_BK = torch.arange(T, device=rollout.tokens_BL.device).expand(B, T)
    used_BT = start_BK.new_zeros(B, T + 1).scatter(1, rollout.reveal_BL + 1, 1)[:, 1:]
    return Steps(start_BK, start_BK + 1, used_BT.float())


def _columns(value_BKL: Tensor, column_BK: Tensor) -> Tensor:
    return value_BKL.gather(1, column_BK.unsqueeze(2).expand(-1, -1, value_BKL.shape[2]))


def _chosen(rewards: Rewards, column_BK: Tensor) -> Rewards:
    """The rewards of some of the T drafts of each row."""
    B = len(column_BK)
    T = rewards.total_X.numel() // B
    row_B1 = torch.arange(B, device=column_BK.device).unsqueeze(1)
    index_X = (row_B1 * T + column_BK).flatten().to(rewards.total_X.device)
    return Rewards(
        rewards.total_X[index_X], rewards.part_XC[index_X], rewards.names,
        rewards.counted_X[index_X], rewards.outcome_XC[index_X],
    )  # fmt: skip
