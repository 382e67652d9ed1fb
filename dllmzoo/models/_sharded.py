"""Networks whose parameters are spread over processes: a forward of one is a forward of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from dllmzoo.reading import reads_slots


@dataclass(frozen=True)
class Sharding:
    """How FSDP2 spreads a network.

    Args:
        free: give gathered parameters back after each block's forward; False keeps them until
            the backward pass: faster, at the memory of the whole network.
        offload: shards live in main memory and visit the device block by block.
        compute: dtype of the gathered parameters; None = that of the shards.
    """

    free: bool = True
    offload: bool = False
    compute: torch.dtype | None = None


def shard(network: Any, sharding: Sharding, device: torch.device) -> Any:
    """Spread a network over all processes, block by block, in place.

    Every process must hold the same weights; no more than one block at a time visits the device
    as a whole. A network of adapters is spread with its adapters.

    Args:
        network: a network of ours or a `PeftModel` around one, not on the device yet.
        sharding: the options.
        device: where it computes.

    Returns:
        The network itself.
    """
    offload = CPUOffloadPolicy(pin_memory=device.type != "cpu")
    options: dict[str, Any] = {
        "mesh": init_device_mesh(device.type, (distributed.get_world_size(),)),
        "offload_policy": offload if sharding.offload else OffloadPolicy(),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=sharding.compute,
            reduce_dtype=None if sharding.compute is None else torch.float32,
        ),
    }
    for block in blocks(network):
        fully_shard(block, **options, reshard_after_forward=sharding.free)
    # what is left, embedding and head, is freed too: else it would be stale after an update
    return fully_shard(network, **options, reshard_after_forward=True)


def blocks(network: Any) -> list[nn.Module]:
    """The transformer blocks of a network, in order."""
    base = network.get_base_model() if hasattr(network, "get_base_model") else network
    names = set(base._no_split_modules)
    return [module for module in base.modules() if type(module).__name__ in names]


def is_sharded(network: Any) -> bool:
    """Whether every forward of the network, or of what a reference stands on, is collective."""
    return isinstance(network, FSDPModule) or isinstance(
        getattr(network, "model", None), FSDPModule
    )


def put_back(network: Any) -> None:
    """Give gathered parameters back, so that what is read next are shards; all must call."""
    if is_sharded(network):
        root: Any = network if isinstance(network, FSDPModule) else network.model
        for module in root.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def most(number: int, network: Any) -> int:
    """The largest number of any process; where the network is not sharded, the own one."""
    return int(_reduced(number, network, distributed.ReduceOp.MAX))


def everywhere(truth: bool, network: Any) -> bool:
    """Whether it holds on every process; where the network is not sharded, on this one."""
    return bool(_reduced(int(truth), network, distributed.ReduceOp.MIN))


def _reduced(number: int, network: Any, how: Any) -> int:
    if not is_sharded(network):
        return number
    value = torch.tensor([number], device=_device(network))
    distributed.all_reduce(value, how)
    return int(value)


def _device(network: Any) -> torch.device:
    """Where the network computes, which offloaded shards do not tell."""
    parameter = next(getattr(network, "model", network).parameters())
    return torch.device(parameter.device_mesh.device_type)  # type: ignore[attr-defined]


def shard_of(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor, which may be all of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, on every process; all must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def spread_like(value: Tensor, tensor: Tensor) -> Tensor:
    """A whole value, spread as `tensor` is if it is; all processes must call."""
    if not isinstance(tensor, DTensor):
        return value
    value = value.to(tensor.device_mesh.device_type)
    return distribute_tensor(value, tensor.device_mesh, tensor.placements).to(tensor.device)


def whole_state(network: Any, main: bool, trained_only: bool = False) -> dict[str, Tensor]:
    """All weights by public name, in main memory of the main process; tied ones share a tensor.

    Args:
        network: sharded or not; where it is, all processes must call.
        main: this is the process that wants them; the others get an empty mapping.
        trained_only: only the names that are trained, such as adapters.
    """
    state, seen = {}, {}
    trained = {id(p) for p in network.parameters() if p.requires_grad}
    for name, value in network.state_dict(keep_vars=True).items():
        if trained_only and id(value) not in trained:
            continue
        if id(value) not in seen:
            gathered = whole(value.detach())
            seen[id(value)] = gathered.cpu() if main else None
        if main:
            state[name] = seen[id(value)]
    return state


class _InStep:
    """A sharded network that tells the other processes of each of its forwards."""

    def __init__(self, network: Any) -> None:
        self.network = network

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    @property
    def reads_slots(self) -> bool:
        """Whether the network takes `per_slot` and `columns_at`."""
        return reads_slots(self.network)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The network's output; processes that have finished run along with one token."""
        self._any(1)
        return self.network(*args, **kwargs)

    def finish(self) -> None:
        """Run along until every process has finished."""
        device = _device(self.network)
        token_11 = torch.zeros(1, 1, dtype=torch.long, device=device)
        while int(self._any(0)):
            self.network(token_11, torch.ones_like(token_11, dtype=torch.bool))

    def _any(self, wanted: int) -> Tensor:
        """1 if any process wants a forward; all take part."""
        value = torch.tensor([wanted], device=_device(self.network))
        distributed.all_reduce(value, distributed.ReduceOp.MAX)
        return value


@contextmanager
def in_step(network: Any) -> Iterator[Any]:
    """A network that may be called a different number of times by each process of the run.

    A forward of a sharded network needs all processes: inside the block each forward is announced,
    and the end of the block waits for the slowest process, running along with a dummy token. Only
    without gradient, and only this network may be called inside. A network that is not sharded
    is yielded as it is.
    """
    if not is_sharded(network):
        yield network
        return
    wrapped = _InStep(network)
    yield wrapped
    with torch.no_grad():
        wrapped.finish()
    put_back(network)
