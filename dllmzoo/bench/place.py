"""Where an arm runs: a size on a device, its networks, and a clock that waits for the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dllmzoo.bench.sizes import Size
from dllmzoo.models._lora import add_lora
from dllmzoo.recipe.sections import Lora
from dllmzoo.records import Key, Prompts
from dllmzoo.zoo import MODELS

SEED = 0


@dataclass(frozen=True)
class Place:
    """A size on a device.

    Args:
        size: networks and canvases.
        device: of everything.
        dtype: of the weights.
    """

    size: Size
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32

    @property
    def on_gpu(self) -> bool:
        """Whether work is only started when a call returns."""
        return self.device.type == "cuda"

    def now(self) -> float:
        """Seconds, once the device has done all that it was given."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def seconds(self, run: Callable[[], Any]) -> float:
        """How long a call takes."""
        start = self.now()
        run()
        return self.now() - start

    def network(self, family: str) -> Any:
        """`llada` or `sdar` with random weights, the same at every call, in evaluation mode."""
        cls: Any = MODELS.get(family)
        fields = self.size.llada if family == "llada" else self.size.sdar
        law = {"init_fn": "normal", "init_std": 0.02} if family == "llada" else {}
        devices = [self.device] if self.on_gpu else []
        with torch.random.fork_rng(devices=devices), self.device, _default(self.dtype):
            torch.manual_seed(SEED)
            network = cls(cls.config_class(**fields, **law)).eval()
        with torch.no_grad():  # what a first forward allocates for good belongs to the network
            network(torch.zeros(1, 8, dtype=torch.long, device=self.device))
        return network

    def trained(self, family: str) -> Any:
        """The network of a run: with adapters where the size has them."""
        network = self.network(family)
        if not self.size.lora:
            return network
        rank = self.size.lora
        adapters = Lora(preset="attention", rank=rank, alpha=float(rank))
        return add_lora(network, adapters, SEED).to(self.device).eval()

    def tokens(self, rows: int, length: int, vocabulary: int) -> Tensor:
        """Random words (B, L), neither mask nor end; a longer row starts like a shorter one."""
        draw = Key(SEED, 0, "words").uniform(torch.arange(rows), length)
        return (draw * (vocabulary - 2)).long().to(self.device)

    def prompts(self, tokens_BL: Tensor) -> Prompts:
        """Rows without padding."""
        row_B = torch.arange(len(tokens_BL), device=self.device)
        attend_BL = torch.ones_like(tokens_BL, dtype=torch.bool)
        return Prompts(tokens_BL, attend_BL, row_B, row_B, [{}] * len(tokens_BL))


def built(registry: Any, name: str, **settings: Any) -> Any:
    """A component by its name."""
    return registry.get(name)(**settings)


@contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
