"""What rounds cost: FLOPs of what ran, and a forecast from the recipe alone."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from dllmzoo import flops
from dllmzoo.recipe.sections import Model
from dllmzoo.training.reads import Read


def flops_of(config: Any, spec: Model, reads: Iterable[Read]) -> float:
    """FLOPs of what ran."""
    total = 0.0
    for read in reads:
        if read.rows == 0:
            continue
        shape = (config, read.rows, read.length, read.logits)
        streams = {"target": read.target, "keys": read.keys, "lora": spec.lora}
        total += flops.flops_forward(*shape, **streams)
        if read.backward:
            checkpointing = spec.gradient_checkpointing
            total += flops.flops_backward(*shape, **streams, checkpointing=checkpointing)
    return total


def memory_peak(device: torch.device) -> float:
    """Bytes this process held at most: on the GPU it trains on, else in main memory."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


@dataclass(frozen=True)
class Plan:
    """A forecast of one round and of the run.

    Args:
        samples: answers of a round.
        updates: optimiser updates of a round.
        rollout_rows: model rows that the sampler runs, at most.
        score_rows: rows scored without gradient.
        train_rows: rows with a forward and a backward.
        forwards: model calls of a round on one process, after batching.
        flops: of a round.
        seconds: of a round on this machine, from a measured matrix product; a rough guess.
        rounds: of the run.
        device: of this machine, which the seconds are for.
        normaliser: what the sum over a loss's units, and the log-probs inside it, are divided by.
    """

    samples: int
    updates: int
    rollout_rows: int
    score_rows: int
    train_rows: int
    forwards: int
    flops: float
    seconds: float
    rounds: int
    device: str = "this machine"
    normaliser: str = "not said by this loss"

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of each line of the dry run."""
        return [
            ("samples per round", f"{self.samples:,}"),
            ("updates per round", f"{self.updates:,}"),
            ("rollout rows per round (at most)", f"{self.rollout_rows:,}"),
            ("scored rows per round", f"{self.score_rows:,}"),
            ("trained rows per round", f"{self.train_rows:,}"),
            ("model calls per round", f"{self.forwards:,}"),
            ("the loss is divided by", self.normaliser),
            ("FLOPs per round", f"{self.flops:.3g}"),
            ("estimated for", self.device),
            ("estimated time per round", f"{self.seconds:.3g} s"),
            ("rounds", f"{self.rounds:,}"),
            ("estimated time of the run", f"{self.seconds * self.rounds / 60:.3g} min"),
        ]
