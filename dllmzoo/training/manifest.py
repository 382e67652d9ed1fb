"""What a run must remember to be repeated: versions, commit, command, seed, machine."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import dllmzoo
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.training.folder import FORMAT
from dllmzoo.training.method import Learner
from dllmzoo.training.setup import parameter_counts

PACKAGES = (
    "torch", "transformers", "accelerate", "peft", "safetensors", "tokenizers", "datasets",
    "pydantic", "numpy",
)  # fmt: skip


def versions() -> dict[str, str | None]:
    """Versions of dllmzoo, Python and the libraries that move numbers; None = not installed."""
    found: dict[str, str | None] = {
        "dllmzoo": dllmzoo.__version__,
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def commit() -> str | None:
    """Git commit of the code, `-dirty` if changed; None outside a checkout of dllmzoo."""
    folder = Path(dllmzoo.__file__).parent.parent
    if not (folder / ".git").exists():
        return None
    try:
        name = _git(folder, "rev-parse", "HEAD")
        return f"{name}-dirty" if _git(folder, "status", "--porcelain", "-uno") else name
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def manifest(recipe: Recipe, learner: Learner, command: str) -> dict[str, Any]:
    """Entries of manifest.json that are known at the start."""
    accelerator = learner.accelerator
    trained, total = parameter_counts(learner.policy.parameters())
    return {
        "format": FORMAT,
        "title": recipe.title,
        "method": recipe.method,
        "stage": recipe.stage,
        "seed": recipe.seed,
        "command": command,
        "notices": list(recipe.notices),
        "commit": commit(),
        "versions": versions(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "platform": platform.platform(),
            "device": str(accelerator.device),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "processes": accelerator.num_processes,
            "threads": torch.get_num_threads(),
        },
        "parameters": {"trained": trained, "all": total},
        "finished": None,
    }
