"""What makes a run stop for its own good: weights that are not finite, a policy that collapsed."""

from __future__ import annotations

from typing import Any

import torch

from dllmzoo.errors import HealthError
from dllmzoo.models._sharded import shard_of
from dllmzoo.training.method import Learner


def refuse_broken_weights(learner: Learner, round: int, last_good: str) -> None:
    """Raise if a weight is not finite, on all processes if it is so on one.

    Args:
        learner: holds the policy, or this process's shards of it.
        round: the last finished one.
        last_good: which checkpoint to go back to.

    Raises:
        HealthError: before the weights replace a good checkpoint.
    """
    accelerator = learner.accelerator
    policy: Any = accelerator.unwrap_model(learner.policy)
    broken = [
        name for name, p in policy.named_parameters() if not shard_of(p.detach()).isfinite().all()
    ]
    count = len(broken)
    if accelerator.num_processes > 1:
        counts = torch.tensor([count], device=accelerator.device)
        count = int(torch.as_tensor(accelerator.gather(counts)).max())
    if count:
        first = f", {broken[0]} first," if broken else ""
        raise HealthError(
            f"{count} tensors{first} are not finite after round {round}; lower `optimizer.lr` or "
            f"raise `optimizer.eps`; {last_good}"
        )
