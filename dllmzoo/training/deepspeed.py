"""DeepSpeed's ZeRO settings, read from its launcher and carried out by PyTorch's FSDP2.

DeepSpeed's engine takes the optimiser step inside of its backward pass, so a gradient that is not
finite would be in the weights before a run could refuse it. What ZeRO spreads, FSDP2 spreads too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dllmzoo.errors import UsageError
from dllmzoo.models._sharded import Sharding

PREFIX = "ACCELERATE_DEEPSPEED_"
DECIDED = {"optimizer": "`optimizer`", "scheduler": "`optimizer.schedule`"}
"""Sections of a config file that a recipe decides, and where."""


def zero_sharding(compute: Any = None) -> Sharding | None:
    """What the ZeRO stage asks for: 0 nothing, 1 and 2 and 3 shards.

    Stages 1 and 2 keep gathered parameters from the forward to the backward pass, stage 3 gives
    them back after each block. Any offloading puts all shards in main memory.

    Args:
        compute: dtype of the gathered parameters; None = that of the shards.

    Raises:
        UsageError: the file is not there, or asks for what has no counterpart.
    """
    file = os.environ.get(f"{PREFIX}CONFIG_FILE", "none")
    if file.lower() != "none":
        stage, devices = _of_file(Path(file))
    else:
        stage = int(os.environ.get(f"{PREFIX}ZERO_STAGE", "2"))
        devices = {
            os.environ.get(f"{PREFIX}OFFLOAD_{what}_DEVICE", "none").lower()
            for what in ("OPTIMIZER", "PARAM")
        }
    if stage not in (0, 1, 2, 3):
        raise UsageError(f"there is no ZeRO stage {stage}; there are 0, 1, 2 and 3")
    if "nvme" in devices:
        raise UsageError(
            "DeepSpeed's offloading to NVMe has no counterpart here; offload to `cpu`, or shard "
            "over more GPUs"
        )
    if stage == 0:
        return None
    return Sharding(free=stage == 3, offload="cpu" in devices, compute=compute)


def _of_file(file: Path) -> tuple[int, set[str]]:
    """Stage and offload devices of a DeepSpeed JSON file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        assert isinstance(found, dict)
    except (OSError, ValueError, AssertionError) as error:
        raise UsageError(f"{file} cannot be read as a DeepSpeed config: {error}") from None
    for section, where in DECIDED.items():
        if section in found:
            raise UsageError(
                f"{file} has a section {section!r}, which the recipe decides ({where}); remove it"
            )
    if found.get("fp16", {}).get("enabled") is True:
        raise UsageError(f"{file} asks for fp16, which is not supported; use bf16 or model.dtype")
    zero = found.get("zero_optimization", {})
    devices = {
        str(zero.get(f"offload_{what}", {}).get("device", "none")).lower()
        for what in ("optimizer", "param")
    }
    return int(zero.get("stage", 0)), devices
