"""Checkpoints: what a run needs to go on with the same bits, whatever the number of processes."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from dllmzoo.errors import RunError
from dllmzoo.training.files import whole_folder
from dllmzoo.training.method import Learner

PREFIX = "round-"


@dataclass(frozen=True)
class State:
    """Where a run stands after a round.

    Args:
        round: the last finished one; 0 = before the first.
        minutes: wall time used so far.
        best: the best evaluation after the start, `{"round": r, "value": v}`, or None.
        first_value: the primary metric at round 0.
        low_evaluations: evaluations in a row below the collapse floor.
    """

    round: int = 0
    minutes: float = 0.0
    best: dict[str, float] | None = None
    first_value: float | None = None
    low_evaluations: int = 0


def save(folder: Path, state: State, learner: Learner) -> Path:
    """Write `checkpoints/round-NNNNNN`, atomically; call on the main process only.

    Holds the trainable weights, the optimiser, the learning-rate schedule and the state. Random
    numbers need no state: they are keyed by seed, round and sample.
    """
    path = folder / "checkpoints" / f"{PREFIX}{state.round:06d}"
    policy = learner.accelerator.unwrap_model(learner.policy)
    weights = {
        name: parameter.detach().cpu().contiguous()
        for name, parameter in policy.named_parameters()
        if parameter.requires_grad
    }
    with whole_folder(path) as inside:
        save_file(weights, inside / "weights.safetensors")
        torch.save(learner.optimizer.state_dict(), inside / "optimizer.pt")
        torch.save(learner.scheduler.state_dict(), inside / "scheduler.pt")
        (inside / "state.json").write_text(json.dumps(asdict(state), indent=2) + "\n")
    return path


def load(path: Path, learner: Learner) -> State:
    """Put a checkpoint into the learner.

    Raises:
        RunError: the checkpoint's tensors are not those of the model the recipe builds.
    """
    policy = learner.accelerator.unwrap_model(learner.policy)
    weights = load_file(path / "weights.safetensors")
    wanted = {n: p for n, p in policy.named_parameters() if p.requires_grad}
    if weights.keys() != wanted.keys() or any(weights[n].shape != wanted[n].shape for n in wanted):
        raise RunError(f"{path} holds other tensors than the model of this recipe; start afresh")
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(weights[name])
    device = learner.accelerator.device
    learner.optimizer.load_state_dict(
        torch.load(path / "optimizer.pt", map_location=device, weights_only=True)
    )
    learner.scheduler.load_state_dict(torch.load(path / "scheduler.pt", weights_only=True))
    return read_state(path)


def read_state(path: Path) -> State:
    """The state of a checkpoint folder."""
    fields: dict[str, Any] = json.loads((path / "state.json").read_text())
    return State(**fields)


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints of a run folder, oldest first."""
    return sorted(file.parent for file in folder.glob(f"checkpoints/{PREFIX}*/state.json"))


def prune(folder: Path, keep_last: int, best: int | None) -> None:
    """Delete all checkpoints but the last few and the best one, and what a kill left behind."""
    kept = {path.name for path in checkpoints(folder)[-keep_last:]}
    if best is not None:
        kept.add(f"{PREFIX}{best:06d}")
    for path in checkpoints(folder):
        if path.name not in kept:  # hidden first: a half deleted one must not look complete
            os.replace(path, path.with_name(f".{path.name}.old"))
    for left in folder.glob(f"checkpoints/.{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
