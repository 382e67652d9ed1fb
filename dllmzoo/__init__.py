"""dllmzoo: reinforcement learning of diffusion language models, part by part.

A recipe names the parts, the registry finds them, the loop joins them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dllmzoo.zoo import (
    ADVANTAGES,
    LIKELIHOODS,
    LOSSES,
    MODELS,
    SAMPLERS,
    SCHEDULES,
    SELECTORS,
    TASKS,
    ZOO,
)

if TYPE_CHECKING:
    from dllmzoo.models._load import load_model
    from dllmzoo.recipe.build import build
    from dllmzoo.training.run import train

__version__ = "0.1.0"

__all__ = [
    "ADVANTAGES",
    "LIKELIHOODS",
    "LOSSES",
    "MODELS",
    "SAMPLERS",
    "SCHEDULES",
    "SELECTORS",
    "TASKS",
    "ZOO",
    "build",
    "load_model",
    "train",
]

_LAZY = {
    "build": "dllmzoo.recipe.build",
    "load_model": "dllmzoo.models._load",
    "train": "dllmzoo.training.run",
}


def __getattr__(name: str) -> Any:
    """Import `build`, `load_model` and `train` when they are first used: torch takes seconds."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'dllmzoo' has no attribute {name!r}")
