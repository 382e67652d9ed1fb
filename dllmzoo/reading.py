"""Logits of the wanted slots of a forward, read chunk by chunk so that they never exist at once.

Logits over a large vocabulary are the largest tensor of a rollout and of a score, and what is
wanted of them are a few numbers for each slot. A network of ours hands them to a function as its
head makes them; any other policy is asked for all of them first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

PerSlot = Callable[[Tensor, slice], tuple[Tensor, ...]]
"""(logits of some slots (S', V), which of all S they are) -> tensors of S' rows each.

It is called once at least, and again in a backward pass: it must not change anything then.
"""

ELEMENTS = {"cpu": 2**23}
"""Logits that exist at the same time, by device: on a CPU 32 MiB of float32."""

ELEMENTS_ELSEWHERE = 2**26


def read_slots(policy: Any, per_slot: PerSlot, *inputs: Any, **options: Any) -> tuple[Tensor, ...]:
    """What `per_slot` makes of the logits of the wanted slots, S rows each.

    Args:
        policy: wrapped or not.
        per_slot: row by row alike.
        inputs: of the policy.
        options: of the policy; among them `logits_at`, bool (B, L), or where it `reads_slots`
            `columns_at`, int64 (B, M), columns in ascending order.
    """
    if reads_slots(policy):
        return policy(*inputs, per_slot=per_slot, **options).per_slot
    logits_SV = policy(*inputs, **options).logits
    return in_chunks(lambda part: logits_SV[part], len(logits_SV), logits_SV, per_slot)


def reads_slots(policy: Any) -> bool:
    """Whether a policy takes `per_slot` and `columns_at`.

    Its class must say so, and no hook may wait for its logits: what hands on the attributes of a
    network and changes its logits is asked for logits. Adapters stand not between head and reader.
    """
    network = getattr(policy, "module", policy)
    if hasattr(type(network), "get_base_model"):
        network = network.get_base_model()
    says_so = hasattr(type(network), "reads_slots") and bool(network.reads_slots)
    return says_so and (_is_sharded(network) or not getattr(network, "_forward_hooks", None))


def _is_sharded(network: Any) -> bool:
    """Whether FSDP2 has put its own hooks on a network, which let every output through."""
    return any(each.__name__ == "FSDPModule" for each in type(network).__mro__)


def in_chunks(
    logits_of: Callable[[slice], Tensor], number: int, like: Tensor, per_slot: PerSlot
) -> tuple[Tensor, ...]:
    """Apply `per_slot` to runs of slots and put the results after each other.

    With gradient the logits of a run are made again in the backward pass, unless one run is all.

    Args:
        logits_of: logits (S', V) of a run of slots.
        number: S.
        like: (..., V), says the vocabulary and the device.
        per_slot: what to make of them.
    """
    limit = ELEMENTS.get(like.device.type, ELEMENTS_ELSEWHERE)
    size = max(1, limit // like.shape[-1])
    parts = [slice(i, min(i + size, number)) for i in range(0, number, size)] or [slice(0, 0)]

    def run(part: slice) -> tuple[Tensor, ...]:
        return per_slot(logits_of(part), part)

    if len(parts) == 1:
        return run(parts[0])
    again = torch.is_grad_enabled()
    made = [checkpoint(run, part, use_reentrant=False) if again else run(part) for part in parts]
    return tuple(torch.cat(column) for column in zip(*made, strict=True))
