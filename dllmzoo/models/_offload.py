"""A frozen network whose blocks live in main memory and visit the device one at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dllmzoo.models._sharded import blocks


def blocks_in_main_memory(network: Any, device: torch.device) -> None:
    """Make each block come to the device for its forward only; the rest of the network moves there.

    The weights in main memory are pinned where the device is a GPU, and are never written back:
    the network must be frozen.

    Args:
        network: a network of ours, in main memory.
        device: where it computes.
    """
    inside = {id(p) for block in blocks(network) for p in block.parameters()}
    for tensor in (*network.parameters(), *network.buffers()):
        if id(tensor) not in inside:
            tensor.data = tensor.data.to(device)
    for block in blocks(network):
        _Visits(block, device)


class _Visits:
    """Copies of a block's weights on the device while its forward runs."""

    def __init__(self, block: nn.Module, device: torch.device) -> None:
        self.device = device
        self.home: dict[str, Tensor] = {
            name: p.data.pin_memory() if device.type == "cuda" else p.data
            for name, p in block.named_parameters()
        }
        block.register_forward_pre_hook(self._come)
        block.register_forward_hook(self._go, always_call=True)

    def _come(self, block: nn.Module, inputs: Any) -> None:
        for name, parameter in block.named_parameters():
            parameter.data = self.home[name].to(self.device, non_blocking=True, copy=True)

    def _go(self, block: nn.Module, inputs: Any, output: Any) -> None:
        for name, parameter in block.named_parameters():
            parameter.data = self.home[name]
