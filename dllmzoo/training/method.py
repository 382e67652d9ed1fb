"""What a training loop is given: the parts of a method, a budget, and what is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from dllmzoo import protocols
from dllmzoo.models._sharded import is_sharded, shard_of


@dataclass(frozen=True)
class Method:
    """The parts a recipe names: all that makes one method differ from another."""

    task: protocols.Task
    sampler: protocols.Sampler
    selector: protocols.Selector | None
    likelihood: protocols.Likelihood
    advantage: protocols.Advantage
    loss: protocols.Loss


@dataclass(frozen=True)
class Budget:
    """How much of everything; counts are of all processes together. See `recipe.sections.Train`."""

    prompts: int
    group_size: int
    passes: int = 1
    minibatches: int = 1
    micro_batch: int = 64
    rollout_batch: int = 256
    max_grad_norm: float | None = 1.0
    log_drift: bool = False


@dataclass(frozen=True)
class Learner:
    """What is trained and with what: networks, optimiser, processes, text codec."""

    policy: Any
    reference: protocols.Policy | None
    optimizer: torch.optim.Optimizer
    scheduler: Any
    accelerator: Any
    codec: Any
    rollouts: Any = None
    """A `RolloutCopy`, where answers are sampled in another precision."""

    @property
    def sampling_policy(self) -> Any:
        """The network that samples, in evaluation mode and up to date."""
        if self.rollouts is not None:
            return self.rollouts.refreshed()
        return self.accelerator.unwrap_model(self.policy).eval()

    @property
    def shards(self) -> bool:
        """Whether this process holds only a share of each parameter."""
        return is_sharded(self.policy)


def weights(learner: Learner) -> list[torch.Tensor]:
    """A copy of every trained parameter, of this process's shard where they are spread."""
    trained = [p for p in learner.policy.parameters() if p.requires_grad]
    return [shard_of(p.detach()).clone() for p in trained]
