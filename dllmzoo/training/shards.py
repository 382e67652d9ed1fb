"""Sharded weights and optimiser state on disk, through torch.distributed.checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards

from dllmzoo.errors import RunError

FOLDER = "shards"
MOMENTS = ("exp_avg", "exp_avg_sq")
"""What AdamW keeps of each parameter, besides the number of its steps."""


def trained(policy: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that a checkpoint holds, by name."""
    return {name: p for name, p in policy.named_parameters() if p.requires_grad}


def save(folder: Path, policy: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write what each process holds; all must call."""
    with _quiet():
        save_shards(_tensors(policy, optimizer), checkpoint_id=folder)


def load(folder: Path, policy: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Read what this process holds now: all of it, or another share than was written.

    Raises:
        RunError: the tensors are not those of the policy.
    """
    held = FileSystemReader(folder).read_metadata().state_dict_metadata
    prefix = "weights."
    sizes = {
        name.removeprefix(prefix): tuple(about.size)  # type: ignore[union-attr]
        for name, about in held.items()
        if name.startswith(prefix)
    }
    refuse_others(folder, sizes, trained(policy))
    tensors = _tensors(policy, optimizer)
    alone = not torch.distributed.is_initialized()
    with _quiet():
        load_shards(tensors, checkpoint_id=folder, no_dist=alone)


def refuse_others(
    path: Path, sizes: Mapping[str, tuple[int, ...]], wanted: Mapping[str, Tensor]
) -> None:
    """Raise unless names and shapes are those of the parameters.

    Raises:
        RunError: they are not.
    """
    if sizes != {name: tuple(parameter.shape) for name, parameter in wanted.items()}:
        raise RunError(f"{path} holds other tensors than the model of this recipe; start afresh")


def _tensors(policy: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and moments by name, sharing memory with those in use; made where there are none."""
    found: dict[str, Tensor] = {}
    for name, parameter in trained(policy).items():
        state = optimizer.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            for moment in MOMENTS:
                state[moment] = torch.zeros_like(parameter, requires_grad=False)
        found[f"weights.{name}"] = parameter.detach()
        for key, value in state.items():
            found[f"optimizer.{name}.{key}"] = value
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """No word about private interfaces that torch's own checkpoint code uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
