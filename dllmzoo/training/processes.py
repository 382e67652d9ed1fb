"""The processes of a run: how they were launched, how they join, what each of them holds."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch

from dllmzoo.errors import UsageError
from dllmzoo.models._sharded import Sharding
from dllmzoo.training.deepspeed import zero_sharding

log = logging.getLogger("dllmzoo")

PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others in one exchange: rank 0 may be saving a large model."""


def join_processes(**options: Any) -> Any:
    """The accelerator of all launched processes.

    Args:
        options: of `accelerate.Accelerator`.

    Raises:
        UsageError: the launched processes did not find each other, or the launcher asks for
            gradient accumulation.
    """
    from accelerate import Accelerator
    from accelerate.utils import InitProcessGroupKwargs

    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched > 1 and not torch.accelerator.is_available():
        os.environ["ACCELERATE_USE_CPU"] = "true"  # else each process would run alone
    _refuse_accumulation()
    if _asked("FSDP"):  # each process reads all weights and keeps its shards
        os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
    handlers = [*options.pop("kwargs_handlers", ()), InitProcessGroupKwargs(timeout=PATIENCE)]
    if _asked("DEEPSPEED"):
        log.info("DeepSpeed's ZeRO settings are carried out by FSDP2; its engine is not used")
    with _without_deepspeed():
        accelerator = Accelerator(**options, kwargs_handlers=handlers)
    if launched > 1 and accelerator.num_processes == 1:
        raise UsageError(
            f"{launched} processes were launched, but accelerate sees each alone: they would "
            f"work apart in one run folder; launch with "
            f"`torchrun --nproc-per-node {launched} -m dllmzoo ...`"
        )
    return accelerator


def _refuse_accumulation() -> None:
    """Accelerate would divide each gradient by its number of steps; the recipe splits updates."""
    steps = os.environ.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1")
    if steps not in ("1", "auto"):
        raise UsageError(
            f"the launcher asks for {steps} steps of gradient accumulation; leave it at 1: an "
            f"update runs as many forwards of `train.micro_batch` rows as it needs"
        )


@contextmanager
def _without_deepspeed() -> Iterator[None]:
    """Hide from accelerate that DeepSpeed is asked for: its engine is not used."""
    asked = os.environ.pop("ACCELERATE_USE_DEEPSPEED", None)
    try:
        yield
    finally:
        if asked is not None:
            os.environ["ACCELERATE_USE_DEEPSPEED"] = asked


def _asked(engine: str) -> bool:
    """Whether the launcher asks for `FSDP` or `DEEPSPEED`."""
    return os.environ.get(f"ACCELERATE_USE_{engine}", "false").lower() in ("true", "1")


def sharding_of(accelerator: Any) -> Sharding | None:
    """How the launcher wants parameters spread; None = every process holds the whole network.

    The options are those of accelerate's config file: `fsdp_config`, or the ZeRO stage of
    `deepspeed_config`. One process alone has nobody to share with.

    Raises:
        UsageError: FSDP1, Megatron-LM, half precision that needs loss scaling, or accelerate's
            own activation checkpointing.
    """
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    if accelerator.distributed_type == DistributedType.MEGATRON_LM:
        raise UsageError("Megatron-LM is not supported; launch with fsdp_version: 2 or plain DDP")
    if not (_asked("FSDP") or _asked("DEEPSPEED")) or not torch.distributed.is_initialized():
        return None
    if accelerator.mixed_precision not in ("no", "bf16"):
        raise UsageError(
            f"mixed_precision is {accelerator.mixed_precision}; sharded parameters compute in "
            f"`no` (the dtype of the weights) or `bf16`"
        )
    compute = torch.bfloat16 if accelerator.mixed_precision == "bf16" else None
    if _asked("DEEPSPEED"):
        return zero_sharding(compute)
    plugin = getattr(accelerator.state, "fsdp_plugin", None) or FullyShardedDataParallelPlugin()
    if plugin.fsdp_version != 2:
        raise UsageError(
            f"the launcher asks for FSDP version {plugin.fsdp_version}; set `fsdp_version: 2` in "
            f"accelerate's config (recipes/_accelerate/fsdp2.yaml is an example)"
        )
    if plugin.activation_checkpointing:
        raise UsageError(
            "fsdp_activation_checkpointing is not read; set `model.gradient_checkpointing: true` "
            "in the recipe, which is the same for every launcher"
        )
    from torch.distributed.fsdp import CPUOffloadPolicy

    return Sharding(
        free=bool(plugin.reshard_after_forward),
        offload=isinstance(plugin.cpu_offload, CPUOffloadPolicy),
        compute=compute,
    )
