"""Peak memory of a piece of work on top of what is loaded, and the peak of matrix products."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import torch

from dllmzoo.bench.place import Place
from dllmzoo.models._linear import linear

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
"""What Linux says of this process, and where a 5 sets its peak back to what it holds now."""


class Peak:
    """The highest memory since it was made, minus what was held then; made before the work.

    Args:
        place: on a GPU its allocator is asked, else Linux.
    """

    def __init__(self, place: Place) -> None:
        """Set the peak back."""
        self.place = place
        self.base: int | None = None
        if place.on_gpu:
            torch.cuda.synchronize(place.device)
            torch.cuda.reset_peak_memory_stats(place.device)
            self.base = torch.cuda.memory_allocated(place.device)
            return
        try:
            RESET.write_text("5")
            self.base = status("VmRSS")
        except OSError:  # not Linux, or not allowed: there is no peak to be told
            self.base = None

    def bytes(self) -> int | None:
        """Bytes on top; None where the system does not tell."""
        if self.base is None:
            return None
        if self.place.on_gpu:
            return torch.cuda.max_memory_allocated(self.place.device) - self.base
        return max(status("VmHWM") - self.base, 0)


def status(name: str) -> int:
    """Bytes of an entry of Linux's record of this process."""
    for line in STATUS.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"{STATUS} has no {name}")


@torch.no_grad()
def matmul_peak(place: Place, repeats: int = 7) -> float:
    """FLOP/s of the fastest of the products of the network's blocks, on a batch of whole rows.

    The median of some calls for each of the shapes (D, D), (D, MLP) and (MLP, D), by the product
    that the networks use.
    """
    size = place.size
    tokens = size.rows * size.length
    width, inner = size.llada["d_model"], size.llada["mlp_hidden_size"]
    best = 0.0
    for inputs, outputs in ((width, width), (width, inner), (inner, width)):
        x = torch.randn(tokens, inputs, device=place.device, dtype=place.dtype)
        weight = torch.randn(outputs, inputs, device=place.device, dtype=place.dtype)
        flops = 2 * tokens * inputs * outputs
        calls = max(1, round(2e9 / flops))

        def run(x: torch.Tensor = x, weight: torch.Tensor = weight, calls: int = calls) -> None:
            for _ in range(calls):
                linear(x, weight)

        run()
        seconds = median(place.seconds(run) for _ in range(repeats))
        best = max(best, calls * flops / seconds)
    return best
