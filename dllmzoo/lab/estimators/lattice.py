"""Exact truths of an answer under a random order: a sum over the 2^n sets of revealed slots.

The law is that of a sampler that reveals one slot a step, each masked slot being equally likely
to be next, and draws its token from the network at temperature 1.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dllmzoo.lab.estimators.states import Trajectories, look

MOST_SLOTS = 10
"""Slots whose subsets are still enumerated."""


@dataclass(frozen=True)
class Lattice:
    """What a policy says of X answers in all R = 2^n states, bit i of a state = slot i revealed.

    Args:
        logprob_XRN: float64 nats, of the answer's token at each hidden slot; 0 at revealed ones.
        entropy_XRN: float64 nats, of the network's law at each hidden slot; 0 at revealed ones.
    """

    logprob_XRN: Tensor
    entropy_XRN: Tensor

    @classmethod
    def of(
        cls, policy: Any, tokens_XL: Tensor, open_L: Tensor, *, micro_batch: int = 512
    ) -> Lattice:
        """Read every state of every answer.

        Args:
            policy: the network.
            tokens_XL: prompts with answers.
            open_L: bool, the n slots that are revealed one by one; the others are given.
            micro_batch: inputs of one forward.
        """
        X, N = len(tokens_XL), int(open_L.sum())
        hidden_RN = ~revealed(N)
        R = len(hidden_RN)
        logprob_RN, entropy_RN = look(
            policy, tokens_XL.repeat_interleave(R, 0), open_L, hidden_RN.repeat(X, 1),
            micro_batch=micro_batch,
        )  # fmt: skip
        return cls(logprob_RN.view(X, R, N), entropy_RN.view(X, R, N))

    @property
    def slots(self) -> int:
        """N."""
        return self.logprob_XRN.shape[2]

    @property
    def errors(self) -> tuple[float, float]:
        """Standard errors of log-likelihood and ELBO: none, both are exact."""
        return 0.0, 0.0

    @cached_property
    def loglikelihood_X(self) -> Tensor:
        """Exact log-likelihood of each answer, nats."""
        return loglikelihood(self.logprob_XRN)[:, -1]

    @cached_property
    def elbo_X(self) -> Tensor:
        """Exact any-order ELBO of each answer, nats: its chain log-prob averaged over orders."""
        N = self.slots
        size_R = revealed(N).sum(1)
        weight_R = torch.tensor(
            [
                math.factorial(k) * math.factorial(max(N - k - 1, 0)) / math.factorial(N)
                for k in size_R.tolist()
            ],
            dtype=torch.float64,
        )
        return torch.einsum("xrn,r->x", self.logprob_XRN, weight_R)

    def orders(self, index_B: Tensor, uniform_BN: Tensor) -> Tensor:
        """Step at which each slot was revealed, given the answer: reveal_BN, int64.

        Drawn exactly from the law of the sampler's orders, from the last step to the first.

        Args:
            index_B: the answer of each row.
            uniform_BN: in [0, 1), one number a step.
        """
        N = self.slots
        before_XR = loglikelihood(self.logprob_XRN)
        state_B = torch.full_like(index_B, 2**N - 1)
        reveal_BN = torch.zeros(len(index_B), N, dtype=torch.long)
        bit_N = 2 ** torch.arange(N)
        for step in range(N - 1, -1, -1):
            has_BN = (state_B.unsqueeze(1) & bit_N) > 0
            earlier_BN = (state_B.unsqueeze(1) - bit_N).clamp(min=0)
            slot_N = torch.arange(N)
            row_B1 = index_B.unsqueeze(1)
            came_BN = before_XR[row_B1, earlier_BN] + self.logprob_XRN[row_B1, earlier_BN, slot_N]
            share_BN = came_BN.masked_fill(~has_BN, -torch.inf).softmax(1)
            passed_BN = share_BN.cumsum(1) <= uniform_BN[:, step : step + 1]
            last_B = has_BN.long().mul(slot_N + 1).amax(1) - 1
            chosen_B = torch.minimum(passed_BN.sum(1), last_B)
            reveal_BN.scatter_(1, chosen_B.unsqueeze(1), step)
            state_B = state_B - bit_N[chosen_B]
        return reveal_BN

    def trajectories(self, index_B: Tensor, uniform_BN: Tensor) -> Trajectories:
        """Trajectories that end in the given answers, as the sampler makes them; see `orders`."""
        return self.along(index_B, self.orders(index_B, uniform_BN))

    def along(self, index_B: Tensor, reveal_BN: Tensor) -> Trajectories:
        """The trajectories of the given answers and orders."""
        N = self.slots
        slot_N, row_B1 = torch.arange(N), index_B.unsqueeze(1)
        bit_N = 2**slot_N
        earlier = reveal_BN.unsqueeze(1) < reveal_BN.unsqueeze(2)  # slot j before slot i
        state_BN = (earlier * bit_N).sum(2)
        masked = reveal_BN.unsqueeze(1) >= slot_N.view(1, N, 1)  # slot i before step t
        state_BT = (~masked * bit_N).sum(2)
        return Trajectories(
            index_B,
            reveal_BN,
            self.logprob_XRN[row_B1, state_BN, slot_N],
            self.entropy_XRN[row_B1, state_BN, slot_N],
            self.entropy_XRN[row_B1, state_BT].sum(2) / masked.sum(2),
        )


def revealed(slots: int) -> Tensor:
    """revealed_RN, bool: which slots are revealed in each of the 2^n states."""
    state_R1 = torch.arange(2**slots).unsqueeze(1)
    return (state_R1 & 2 ** torch.arange(slots)) > 0


def loglikelihood(logprob_XRN: Tensor) -> Tensor:
    """Log-prob of reaching each state with the answer's tokens, (X, R); differentiable.

    The last state is the whole answer. A state is reached from each state that has one slot less.
    """
    N = logprob_XRN.shape[2]
    state_RN = revealed(N)
    reached: list[Tensor] = [logprob_XRN.new_zeros(len(logprob_XRN))]
    for state in range(1, 2**N):
        slots = state_RN[state].nonzero()[:, 0].tolist()
        ways = [reached[state - 2**slot] + logprob_XRN[:, state - 2**slot, slot] for slot in slots]
        choices = N - len(slots) + 1
        reached.append(torch.stack(ways).logsumexp(0) - math.log(choices))
    return torch.stack(reached, 1)


def all_orders(slots: int) -> Tensor:
    """reveal_BN of each of the n! orders."""
    return torch.tensor(list(itertools.permutations(range(slots))))
