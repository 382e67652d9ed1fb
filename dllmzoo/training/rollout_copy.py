"""A copy of the policy in another precision, which samples while the policy itself is trained."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from dllmzoo.errors import UsageError
from dllmzoo.models._sharded import is_sharded


class RolloutCopy:
    """Samples with what the policy is worth now, rounded to `dtype`.

    The network's body runs in that precision; samplers read its logits in float32 all the same.
    Log-probs that the loss compares are scored by the policy itself.

    Args:
        policy: the network that is trained, unwrapped.
        dtype: of the copy.

    Raises:
        UsageError: the policy is sharded, so no process has all of it to copy.
    """

    def __init__(self, policy: nn.Module, dtype: torch.dtype) -> None:
        if is_sharded(policy):
            raise UsageError(
                "train.rollout_dtype copies the policy, which no process holds whole when it is "
                "sharded; leave it out, and let the launcher's mixed precision set what blocks "
                "compute in"
            )
        self.model: Any = copy.deepcopy(policy).to(dtype).requires_grad_(False).eval()
        self._changes = [
            (mine, theirs)
            for mine, theirs in zip(self.model.parameters(), policy.parameters(), strict=True)
            if theirs.requires_grad
        ]

    @torch.no_grad()
    def refreshed(self) -> Any:
        """The copy, after its trained parameters were taken over anew."""
        for mine, theirs in self._changes:
            mine.copy_(theirs)
        return self.model
