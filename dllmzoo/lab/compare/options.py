"""What is compared, and what cannot be asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from dllmzoo.errors import UsageError
from dllmzoo.lab.compare import tuning
from dllmzoo.lab.grid import refuse_taken

TAKEN = {
    "seed": "--seeds",
    "output": "--output",
    "train.rounds": "--budget-flops",
    "train.max_minutes": "--budget-flops",
    "train.save_every": "the comparison",
    "train.keep_last": "the comparison",
    "train.log_rollouts": "the comparison",
    "evaluate.every": "the comparison",
    "evaluate.also_steps": "--steps",
    "evaluate.floor": "the comparison",
}
"""Keys that a comparison sets for every run, and by which option."""


@dataclass(frozen=True)
class Options:
    """What is compared, and with how much compute.

    Args:
        recipes: files, names or patterns.
        budget_flops: of one run: rollouts, scoring and training, without evaluation.
        overrides: changes to all recipes.
        seeds: runs of each method, on seeds 0, 1, ...
        rates: a file with a learning rate for each method.
        tune: factors on the recipes' learning rates, of which the best is used.
        tune_budget_flops: of one tuning run; None = as much as a run.
        steps: further numbers of denoising steps the trained policy is evaluated at; None = half
            and twice those of the main evaluation.
        jobs: processes.
        output: folder, resumable.
    """

    recipes: tuple[str, ...]
    budget_flops: float
    overrides: tuple[str, ...] = ()
    seeds: int = 3
    rates: Path | None = None
    tune: tuple[float, ...] = ()
    tune_budget_flops: float | None = None
    steps: tuple[int, ...] | None = None
    jobs: int = 1
    output: Path = Path("runs/compare")


def refuse(options: Options) -> None:
    """Raise if the options make no comparison, or would be run in a foreign folder.

    Raises:
        UsageError: says which option to change.
    """
    if not options.recipes:
        raise UsageError("name the recipes to compare: --recipes 'recipes/*_sudoku.yaml'")
    refuse_taken(options.overrides, TAKEN)
    if options.tune_budget_flops is not None and not options.tune:
        raise UsageError("--tune-budget-flops is of the runs of --tune, which is not given")
    if options.tune and options.rates:
        raise UsageError("--tune finds the learning rates that --rates gives; use one of them")
    if options.tune:
        tuning.refuse_factors(options.tune)
    if not math.isfinite(options.budget_flops) or options.budget_flops <= 0:
        raise UsageError("--budget-flops must be above 0: FLOPs of one run, say 1e13")
    if not 1 <= options.seeds <= tuning.SEED:
        raise UsageError(f"--seeds must be between 1 and {tuning.SEED}")
    folder = options.output
    ours = {"probe", "tune", "compare", "compare.json", "curves.json"}
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        if not names & ours:
            raise UsageError(
                f"{folder} is not empty and not the folder of a comparison: nothing in it is "
                f"touched; choose another --output"
            )
