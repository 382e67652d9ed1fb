"""Checkpoints: what a run needs to go on with the same bits, whatever the number of processes."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dllmzoo.models._sharded import is_sharded, spread_like
from dllmzoo.training import shards
from dllmzoo.training.files import unfinished, whole_folder
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


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint of parameters that are not sharded holds.

    Args:
        state: where the run stands.
        weights: the trainable ones, by name.
        optimizer: its state dict.
        scheduler: that of the learning-rate schedule.
    """

    state: State
    weights: dict[str, Tensor]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any]


def snapshot(state: State, learner: Learner) -> Snapshot:
    """A copy in main memory, complete when this returns, that training does not touch."""
    used = in_use(state, learner)
    held = Snapshot(
        state, _copied(used.weights), _copied(used.optimizer), copy.deepcopy(used.scheduler)
    )
    if learner.accelerator.device.type == "cuda":
        torch.cuda.synchronize(learner.accelerator.device)
    return held


def save(folder: Path, state: State, learner: Learner) -> Path:
    """Write `checkpoints/round-NNNNNN`, atomically; all processes must call.

    Holds the trainable weights, the optimiser, the learning-rate schedule and the state. Random
    numbers need no state: they are keyed by seed, round and sample. Sharded parameters are written
    by the processes that hold them, into a folder that all of them must see; others by the main
    process.
    """
    policy, accelerator = learner.accelerator.unwrap_model(learner.policy), learner.accelerator
    path = path_of(folder, state.round)
    if is_sharded(policy):
        with _folder_of_all(path, accelerator) as inside:
            shards.save(inside / shards.FOLDER, policy, learner.optimizer)
            if accelerator.is_main_process:
                _write_rest(inside, state, learner.scheduler.state_dict())
    elif accelerator.is_main_process:
        write(folder, in_use(state, learner))
    return path


def write(folder: Path, held: Snapshot) -> Path:
    """Write a checkpoint, atomically, in any thread of the main process."""
    path = path_of(folder, held.state.round)
    with whole_folder(path) as inside:
        weights = {name: value.cpu().contiguous() for name, value in held.weights.items()}
        save_file(weights, inside / "weights.safetensors")
        torch.save(held.optimizer, inside / "optimizer.pt")
        _write_rest(inside, held.state, held.scheduler)
    return path


def path_of(folder: Path, round: int) -> Path:
    """The checkpoint of a round."""
    return folder / "checkpoints" / f"{PREFIX}{round:06d}"


def in_use(state: State, learner: Learner) -> Snapshot:
    """The tensors themselves: the next update changes them."""
    policy = learner.accelerator.unwrap_model(learner.policy)
    weights = {name: p.detach() for name, p in shards.trained(policy).items()}
    return Snapshot(state, weights, learner.optimizer.state_dict(), learner.scheduler.state_dict())


def _copied(value: Any) -> Any:
    """The same with copies of all tensors in main memory, pinned where they come from a GPU."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    if not isinstance(value, Tensor):
        return value
    held = torch.empty_like(value, device="cpu", pin_memory=value.is_cuda)
    return held.copy_(value.detach(), non_blocking=value.is_cuda)


def _write_rest(inside: Path, state: State, scheduler: dict[str, Any]) -> None:
    torch.save(scheduler, inside / "scheduler.pt")
    (inside / "state.json").write_text(json.dumps(asdict(state), indent=2) + "\n")


@contextmanager
def _folder_of_all(path: Path, accelerator: Any) -> Iterator[Path]:
    """A folder that appears complete or not at all, into which all processes write."""
    if accelerator.num_processes == 1:
        with whole_folder(path) as inside:
            yield inside
    elif accelerator.is_main_process:
        with whole_folder(path) as inside:
            accelerator.wait_for_everyone()
            yield inside
            accelerator.wait_for_everyone()
    else:
        accelerator.wait_for_everyone()
        yield unfinished(path)
        accelerator.wait_for_everyone()


def load(path: Path, learner: Learner) -> State:
    """Put a checkpoint into the learner, whatever the number of processes that wrote it.

    Raises:
        RunError: the checkpoint's tensors are not those of the model the recipe builds.
    """
    policy = learner.accelerator.unwrap_model(learner.policy)
    if (path / shards.FOLDER).is_dir():
        shards.load(path / shards.FOLDER, policy, learner.optimizer)
    else:
        _load_whole(path, policy, learner)
    learner.scheduler.load_state_dict(torch.load(path / "scheduler.pt", weights_only=True))
    rates = learner.scheduler.get_last_lr()
    for group, rate in zip(learner.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    return read_state(path)


def _load_whole(path: Path, policy: Any, learner: Learner) -> None:
    """A checkpoint that one process wrote, onto parameters that may be sharded now."""
    weights = load_file(path / "weights.safetensors")
    wanted = shards.trained(policy)
    shards.refuse_others(path, {n: tuple(w.shape) for n, w in weights.items()}, wanted)
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(spread_like(weights[name], parameter))
    found = torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True)
    if is_sharded(policy):
        places = [p for group in learner.optimizer.param_groups for p in group["params"]]
        for i, parameter in enumerate(places):
            for key, value in found["state"].get(i, {}).items():
                if value.shape == parameter.shape:
                    found["state"][i][key] = spread_like(value, parameter)
    learner.optimizer.load_state_dict(found)


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
