"""Truths of longer answers, from a large sample of random orders, with standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dllmzoo.lab.estimators.states import Trajectories, look


@dataclass(frozen=True)
class Paths:
    """X answers along R random orders each.

    Args:
        reveal_XRN: int64, the orders.
        logprob_XRN: float64 nats, of the answer's token at each slot when revealed.
        entropy_XRN: float64 nats, of the law it was drawn from.
        entropy_XRT: float64 nats, mean over the slots still masked before each step.
    """

    reveal_XRN: Tensor
    logprob_XRN: Tensor
    entropy_XRN: Tensor
    entropy_XRT: Tensor

    @classmethod
    def of(
        cls, policy: Any, tokens_XL: Tensor, open_L: Tensor, reveal_XRN: Tensor,
        *, micro_batch: int = 512,
    ) -> Paths:  # fmt: skip
        """Read every state on the way of every order.

        Args:
            policy: the network, at temperature 1.
            tokens_XL: prompts with answers.
            open_L: bool, the N slots that are revealed one by one.
            reveal_XRN: uniformly random orders.
            micro_batch: inputs of one forward.
        """
        X, R, N = reveal_XRN.shape
        reveal_RN = reveal_XRN.reshape(X * R, N)
        tokens_RL = tokens_XL.repeat_interleave(R, 0)
        chosen, entropies, means = [], [], []
        for step in range(N):
            hidden_RN, now_R1 = reveal_RN >= step, (reveal_RN == step).long().argmax(1, True)
            logprob_RN, entropy_RN = look(
                policy, tokens_RL, open_L, hidden_RN, micro_batch=micro_batch
            )
            chosen.append(
                torch.zeros_like(logprob_RN).scatter(1, now_R1, logprob_RN.gather(1, now_R1))
            )
            entropies.append(
                torch.zeros_like(entropy_RN).scatter(1, now_R1, entropy_RN.gather(1, now_R1))
            )
            means.append(entropy_RN.sum(1) / (N - step))
        return cls(
            reveal_XRN,
            torch.stack(chosen).sum(0).view(X, R, N),
            torch.stack(entropies).sum(0).view(X, R, N),
            torch.stack(means, 1).view(X, R, N),
        )

    @property
    def chain_XR(self) -> Tensor:
        """Log-prob of each answer given each order, nats."""
        return self.logprob_XRN.sum(2)

    @cached_property
    def loglikelihood_X(self) -> Tensor:
        """Log of the mean over orders of the chain's probability, nats."""
        return self.chain_XR.logsumexp(1) - math.log(self.chain_XR.shape[1])

    @cached_property
    def elbo_X(self) -> Tensor:
        """Mean over orders of the chain's log-prob, nats."""
        return self.chain_XR.mean(1)

    @property
    def errors(self) -> tuple[float, float]:
        """Standard errors of log-likelihood and ELBO, each averaged over the answers."""
        X, R = self.chain_XR.shape
        share_XR = (self.chain_XR - self.chain_XR.amax(1, keepdim=True)).exp()
        relative_X = share_XR.std(1) / share_XR.mean(1)
        each = (relative_X, self.chain_XR.std(1))
        first, second = (float((e / R**0.5).square().sum().sqrt() / X) for e in each)
        return first, second

    def trajectories(self, index_B: Tensor, uniform_BN: Tensor) -> Trajectories:
        """Trajectories of the given answers, drawn among the orders by their probability.

        Args:
            index_B: the answer of each row.
            uniform_BN: in [0, 1); the first number of a row is read.
        """
        passed_BR = self.chain_XR.softmax(1).cumsum(1)[index_B] <= uniform_BN[:, :1]
        order_B = passed_BR.sum(1).clamp(max=self.chain_XR.shape[1] - 1)
        return Trajectories(
            index_B,
            self.reveal_XRN[index_B, order_B],
            self.logprob_XRN[index_B, order_B],
            self.entropy_XRN[index_B, order_B],
            self.entropy_XRT[index_B, order_B],
        )
