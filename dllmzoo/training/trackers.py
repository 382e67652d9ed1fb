"""TensorBoard, W&B and trackio, told of every round beside metrics.jsonl."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dllmzoo.errors import RunError
from dllmzoo.recipe import resolved

PROJECT = "dllmzoo"
"""Of W&B and trackio; WANDB_PROJECT names another."""


def start_trackers(accelerator: Any, recipe: Any, folder: Path) -> None:
    """Begin the trackers of `train.trackers`: a run called as its folder, with its recipe.

    TensorBoard and W&B write to `trackers/` of the run folder, trackio to its own data base. Where
    the network is switched off, `wandb sync` sends later what W&B has written.

    Args:
        accelerator: was told of the trackers when it was made.
        recipe: of the run.
        folder: of the run.

    Raises:
        RunError: a tracker cannot begin, say for want of an account.
    """
    from huggingface_hub import constants

    place, names = folder / "trackers", recipe.train.trackers
    place.mkdir(parents=True, exist_ok=True)
    shared = {"name": folder.name, "config": resolved(recipe)}
    options: dict[str, Any] = {"wandb": {**shared, "dir": str(place)}, "trackio": shared}
    if constants.is_offline_mode() and "WANDB_MODE" not in os.environ:
        options["wandb"]["mode"] = "offline"
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    try:
        accelerator.init_trackers(project, init_kwargs=options)
    except Exception as error:
        accelerator.trackers = []  # none is there to be ended
        account = "WANDB_MODE=offline needs no account, or " if "wandb" in names else ""
        raise RunError(
            f"train.trackers: {', '.join(names)} cannot begin ({type(error).__name__}: {error}); "
            f"{account}leave it out: metrics.jsonl is written anyway"
        ) from error
