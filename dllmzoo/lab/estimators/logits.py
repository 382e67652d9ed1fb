"""The largest gradient of a logit, over every state that the random-order sampler can visit."""

from __future__ import annotations

import torch

from dllmzoo.lab.estimators.reader import reading
from dllmzoo.lab.estimators.truth_gradient import every_state
from dllmzoo.lab.estimators.world import World


def largest_logit_gradient(world: World) -> float:
    """Length of the longest gradient of one logit in the old policy's parameters.

    All tokens of all hidden slots of all states of the enumerated answers are tried.
    """
    rollout, views = every_state(world)
    found = reading(rollout, views, world.old.mask_id)
    parameters = [p for p in world.old.parameters() if p.requires_grad]
    longest = 0.0
    for row in torch.arange(len(found.noised_RL)).split(1):
        at_RL = found.at_RL[row]
        out = world.old(found.noised_RL[row], found.attend_RL[row], logits_at=at_RL).logits
        for logit in out.flatten():
            if not logit.requires_grad:
                continue
            grads = torch.autograd.grad(logit, parameters, retain_graph=True)
            square = sum(float(grad.square().sum()) for grad in grads)
            longest = max(longest, square**0.5)
    return longest
