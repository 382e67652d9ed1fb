"""Where estimators are measured: two nearby policies, one prompt, its answers, their truths."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dllmzoo.lab.estimators.lattice import Lattice
from dllmzoo.lab.estimators.paths import Paths
from dllmzoo.lab.estimators.states import Trajectories
from dllmzoo.laws.inputs import Played
from dllmzoo.records import Key, Rollout

Truth = Lattice | Paths


@dataclass(frozen=True)
class World:
    """Two policies and the answers to one prompt, with what is known exactly about them.

    Args:
        title: what it is, in a few words.
        old: the policy that answers come from.
        new: the nearby policy of importance ratios.
        tokens_XL: int64, prompt and answer of the X answers.
        open_L: bool, the N slots that are generated; the other answer slots are given.
        canvas: answer slots, given ones included; they are the last columns.
        prob_X: float64, probability of each answer under the old policy; adds up to 1.
        reward_X: float64, its reward; None where rewards are not measured.
        old_truth: exact or sampled log-likelihoods and ELBOs under the old policy.
        new_truth: the same under the new one.
        notes: what a reader must know.
        stop_ids: tokens that end an answer.
        micro_batch: inputs of one forward.
    """

    title: str
    old: Any
    new: Any
    tokens_XL: Tensor
    open_L: Tensor
    canvas: int
    prob_X: Tensor
    reward_X: Tensor | None
    old_truth: Truth
    new_truth: Truth
    notes: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    micro_batch: int = 512

    @property
    def slots(self) -> int:
        """N."""
        return int(self.open_L.sum())

    @property
    def exact(self) -> bool:
        """Whether truths are enumerated; else they have standard errors."""
        return isinstance(self.old_truth, Lattice)

    @property
    def advantage_X(self) -> Tensor:
        """Reward minus the expected reward, exactly centred; ones where there are no rewards."""
        if self.reward_X is None:
            return torch.ones_like(self.prob_X)
        return self.reward_X - (self.prob_X * self.reward_X).sum()

    def draw(self, rows: int, key: Key) -> Trajectories:
        """Trajectories as the old policy makes them, the answers in their proportions.

        Answers are drawn at even distances in their cumulative probability, in random order: an
        average over rows is nearly one over the law of answers.
        """
        generator = key.sub("answers").generator()
        place_B = torch.rand((), generator=generator, dtype=torch.float64) + torch.arange(rows)
        passed_BX = self.prob_X.cumsum(0) <= (place_B / rows).unsqueeze(1)
        index_B = passed_BX.sum(1).clamp(max=len(self.prob_X) - 1)
        index_B = index_B[torch.randperm(rows, generator=generator)]
        uniform_BN = key.sub("orders").uniform(torch.arange(rows), self.slots).double()
        return self.old_truth.trajectories(index_B, uniform_BN)

    def rollout(self, path: Trajectories) -> Rollout:
        """The record that a random-order sampler would leave of these trajectories."""
        tokens_BL = self.tokens_XL[path.index_B]
        B, L = tokens_BL.shape
        answer_BL = self.open_L.expand(B, L).clone()
        stop_BL = torch.isin(tokens_BL, torch.tensor(self.stop_ids, dtype=torch.long))
        in_canvas_L = torch.arange(L) >= L - self.canvas
        ended_BL = (stop_BL & in_canvas_L).long().cumsum(1) - (stop_BL & in_canvas_L).long() > 0
        where = self.open_L.nonzero()[:, 0]

        def placed(value_BN: Tensor, fill: float = 0) -> Tensor:
            value_BL = torch.full((B, L), fill, dtype=value_BN.dtype)
            value_BL[:, where] = value_BN
            return value_BL

        N = self.slots
        return Rollout(
            tokens_BL=tokens_BL,
            attend_BL=torch.ones_like(answer_BL),
            answer_BL=answer_BL,
            valid_BL=answer_BL & ~ended_BL,
            reveal_BL=placed(path.reveal_BN, -1),
            logprob_BL=placed(path.logprob_BN.float()),
            entropy_BL=placed(path.entropy_BN.float()),
            confidence_BL=placed(path.logprob_BN.exp().float()),
            block_entropy_BT=path.entropy_BT.float(),
            group_B=torch.zeros(B, dtype=torch.long),
            sample_B=torch.arange(B),
            examples=[{}] * B,
            num_steps=N,
            sampler=Played(1.0, self.canvas, self.canvas, N),
            forwards=B * N,
        )


def nearby(
    policy: Any, truth_of: Any, old: Truth, prob_X: Tensor, shift: float, seed: int
) -> tuple[Any, Truth]:
    """A policy whose log-ratio to `policy` has a given size: its weights plus scaled noise.

    Args:
        policy: the old policy.
        truth_of: policy -> truth.
        old: truth of the old policy.
        prob_X: weights of the answers.
        shift: wanted root mean square of the exact log-ratio, nats.
        seed: of the noise.
    """
    generator = Key(seed, 0, "lab/nearby").generator()
    noise = [
        torch.randn(p.shape, generator=generator).to(p.dtype) * p.detach().std().nan_to_num(0.0)
        for p in policy.parameters()
    ]
    size, new, truth = 0.05, policy, old
    for _ in range(5):
        new = copy.deepcopy(policy)
        with torch.no_grad():
            for parameter, each in zip(new.parameters(), noise, strict=True):
                parameter += size * each
        truth = truth_of(new)
        gap_X = truth.loglikelihood_X - old.loglikelihood_X
        found = float((prob_X * gap_X.square()).sum().sqrt())
        if abs(found - shift) < 0.02 * shift:
            break
        size *= min(max(shift / max(found, 1e-9), 0.1), 10.0)
    return new, truth
