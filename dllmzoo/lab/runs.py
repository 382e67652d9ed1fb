"""Many runs as one resumable folder: checked first, spread over processes, none run twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dllmzoo.errors import DllmzooError, Interrupted, Problem, RecipeError, RunError, UsageError

if TYPE_CHECKING:
    from dllmzoo.recipe import Recipe

Say = Callable[[str], None]
Status = Literal["finished", "stopped", "failed"]

FORMAT = 1
AT_ONCE = "stopped at once; the same command goes on from the last checkpoints"
NAME = re.compile(r"[A-Za-z0-9][\w.,+=@-]{0,199}")
MAY_DIFFER = (
    "output", "train.save_every", "train.keep_last", "train.async_save", "train.trackers",
    "train.log_rollouts",
)  # fmt: skip
"""Recipe keys in which a run found in the folder may differ from its arm."""


@dataclass(frozen=True)
class Arm:
    """One run of an experiment.

    Args:
        name: of its folder `runs/<name>`: letters, digits and `_ . , + = @ -`.
        recipe: a file, or the name of a packaged recipe.
        overrides: changes to it, `key=value`; `output` is set by the engine.
    """

    name: str
    recipe: str
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How an arm ended.

    Args:
        arm: what was run.
        status: `finished`; `stopped` by a health check; `failed` by any other error.
        message: of the error; empty if finished.
        rows: the rows of metrics.jsonl, that of round 0 first.
    """

    arm: Arm
    status: Status
    message: str
    rows: list[dict[str, Any]]


def run_arms(
    arms: Sequence[Arm], folder: Path | str, jobs: int = 1, *, say: Say | None = None
) -> list[Outcome]:
    """Run every arm that has not ended yet; each is a standard run folder `runs/<name>`.

    The first interrupt lets the running arms finish their round and save, the second stops at
    once; the same call goes on later. Arms that a health check stopped are not run again, failed
    ones are.

    Args:
        arms: names must differ. Arms of earlier calls in this folder may be left out.
        folder: of the experiment; made if missing.
        jobs: processes, >= 1; 1 runs in this process. Each gets an equal share of the cores.
        say: told one line for each arm that ended, and the notices of the recipes.

    Returns:
        The outcome of each arm, in the order of `arms`.

    Raises:
        RecipeError: all problems of all arms, before anything is run or written.
        UsageError: the folder holds something else, or a name cannot name a folder.
        RunError: a run in the folder was made by another recipe than its arm says.
        Interrupted: a signal asked to stop.
    """
    tell = say or _silent
    experiment = Experiment(Path(folder))
    _refuse_names(arms, jobs)
    record = experiment.read()
    recipes = check_arms(arms, experiment.path)
    for notice in dict.fromkeys(n for recipe in recipes.values() for n in recipe.notices):
        tell(f"note: {notice}")
    _refuse_changed(experiment, recipes)
    ended = {
        arm.name: outcome
        for arm in arms
        if (outcome := _known(experiment, record, arm, recipes[arm.name])) is not None
    }
    experiment.write(record | {arm.name: _entry(arm, ended.get(arm.name)) for arm in arms})
    left = [arm for arm in arms if arm.name not in ended]
    if ended:
        tell(f"{len(ended)} of {len(arms)} runs are done already")

    def keep(arm: Arm, status: Status, message: str) -> None:
        if status != "failed" and (keys := _changed(experiment, arm.name, recipes[arm.name])):
            status, message = "failed", f"{keys} changed in {arm.recipe} since it was checked"
        outcome = Outcome(arm, status, message, experiment.rows(arm))
        ended[arm.name] = outcome
        experiment.write(experiment.read() | {arm.name: _entry(arm, outcome)})
        place = f"[{len(ended)}/{len(arms)}]"
        tell(f"{place} {describe(outcome, recipes[arm.name].task.primary)}")

    _run(left, experiment, min(jobs, max(len(left), 1)), keep)
    return [ended[arm.name] for arm in arms]


def describe(outcome: Outcome, primary: str) -> str:
    """An outcome in one line: how it ended, the main metric at the start and the end, minutes."""
    rows = outcome.rows
    values = [row[f"eval/{primary}"] for row in rows if row.get(f"eval/{primary}") is not None]
    text = f"{outcome.arm.name}: {outcome.status}"
    if values:
        text += f", {primary} {values[0]:.3f} -> {values[-1]:.3f}"
    if rows and "time/elapsed" in rows[-1]:
        text += f", {rows[-1]['round']} rounds in {rows[-1]['time/elapsed'] / 60:.1f} min"
    return text + (f": {outcome.message}" if outcome.message else "")


@dataclass(frozen=True)
class Experiment:
    """The folder of an experiment: `sweep.json` says what it holds, `runs/` holds the runs."""

    path: Path

    @property
    def file(self) -> Path:
        """sweep.json: arms and how they ended."""
        return self.path / "sweep.json"

    def run(self, arm: Arm) -> Path:
        """The run folder of an arm."""
        return self.path / "runs" / arm.name

    def rows(self, arm: Arm) -> list[dict[str, Any]]:
        """Metrics of an arm; those of rounds that a kill cut off may be among them."""
        from dllmzoo.training.folder import RunFolder

        return RunFolder(self.run(arm)).rows()

    def read(self) -> dict[str, dict[str, Any]]:
        """Name -> recipe, overrides, status and message of every arm known to the folder.

        Raises:
            UsageError: the folder is not empty and not one of an experiment.
        """
        if not self.file.is_file():
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise UsageError(
                    f"{self.path} is not empty and holds no {self.file.name}: it is not the "
                    f"folder of a sweep, and nothing in it is touched; choose another --output"
                )
            return {}
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
            arms = found["arms"]
            sound = found["format"] == FORMAT and all("status" in arm for arm in arms.values())
        except (ValueError, KeyError, TypeError, AttributeError):
            sound, arms = False, {}
        if not sound:
            raise UsageError(
                f"{self.file} is damaged or of another version; delete it to have the runs in "
                f"{self.path / 'runs'} looked through again, or choose another --output"
            )
        return arms

    def write(self, arms: dict[str, dict[str, Any]]) -> None:
        """Replace sweep.json."""
        from dllmzoo.training.files import write_json

        write_json(self.file, {"format": FORMAT, "arms": arms})


def check_arms(arms: Sequence[Arm], folder: Path) -> dict[str, Recipe]:
    """The checked recipe of each arm, by name.

    Raises:
        RecipeError: the problems of all arms; one that several share is told once.
    """
    from dllmzoo.checks import load_checked

    recipes: dict[str, Recipe] = {}
    found: dict[Problem, str] = {}
    for arm in arms:
        try:
            recipes[arm.name] = load_checked(arm.recipe, arm_overrides(arm, folder))
        except RecipeError as error:
            for problem in error.problems:
                found.setdefault(problem, arm.name)
        except DllmzooError as error:
            found.setdefault(Problem(arm.recipe, "", str(error)), arm.name)
    if found:
        raise RecipeError(
            [replace(problem, where=f"{name}: {problem.where}") for problem, name in found.items()]
        )
    return recipes


def arm_overrides(arm: Arm, folder: Path) -> list[str]:
    """The changes of an arm, and the folder its run is written to."""
    return [*arm.overrides, f"output={json.dumps(str(Experiment(folder).run(arm)))}"]


def _run(left: list[Arm], experiment: Experiment, jobs: int, keep: Callable[..., None]) -> None:
    if not left:
        return
    if jobs > 1:
        from dllmzoo.lab._pool import run_in_processes

        run_in_processes(left, experiment.path, jobs, keep)
        return
    from dllmzoo.lab._arm import train_arm
    from dllmzoo.training.interrupt import stop_request

    try:
        with stop_request() as stop:
            for arm in left:
                status, message = train_arm(arm, experiment.path, lambda: stop.signal is not None)
                if status == "interrupted":
                    raise Interrupted(message)
                keep(arm, status, message)
    except KeyboardInterrupt:
        raise Interrupted(AT_ONCE) from None


def _known(
    experiment: Experiment, record: dict[str, dict[str, Any]], arm: Arm, recipe: Recipe
) -> Outcome | None:
    """The outcome of an arm that has ended before."""
    from dllmzoo.training.folder import RunFolder, finished

    run = RunFolder(experiment.run(arm))
    if not run.recipe.exists():
        return None
    entry = record.get(arm.name, {})
    if entry.get("status") == "stopped":
        return Outcome(arm, "stopped", str(entry.get("message", "")), run.rows())
    if finished(run, recipe.train.rounds, recipe.train.max_minutes):
        return Outcome(arm, "finished", "", run.rows())
    return None


def _entry(arm: Arm, outcome: Outcome | None) -> dict[str, Any]:
    status, message = ("waiting", "") if outcome is None else (outcome.status, outcome.message)
    return {
        "recipe": arm.recipe, "overrides": list(arm.overrides), "status": status,
        "message": message,
    }  # fmt: skip


def _refuse_names(arms: Sequence[Arm], jobs: int) -> None:
    """Raise if two arms would share a folder or one has no proper name."""
    if jobs < 1:
        raise UsageError(f"{jobs} jobs cannot run anything; give at least 1")
    if not arms:
        raise UsageError("there is nothing to run: no recipe was given")
    seen: set[str] = set()
    for arm in arms:
        if not NAME.fullmatch(arm.name):
            raise UsageError(
                f"a run cannot be named {arm.name!r}: use at most 200 letters, digits and "
                f"_ . , + = @ -, a letter or digit first"
            )
        if arm.name in seen:
            raise UsageError(f"two runs are named {arm.name!r}; each needs its own folder")
        seen.add(arm.name)


def _refuse_changed(experiment: Experiment, recipes: dict[str, Recipe]) -> None:
    """Raise if a run in the folder is of another recipe than its arm."""
    changed = []
    for name, recipe in recipes.items():
        try:
            if keys := _changed(experiment, name, recipe):
                changed.append(f"  {name}: {keys} differ")
        except RecipeError as error:
            changed.append(f"  {name}: {error.problems[0]}")
    if changed:
        raise RunError(
            f"{len(changed)} of {len(recipes)} runs in {experiment.path} were made by another "
            f"recipe than now asked for:\n" + "\n".join(changed) + "\nchoose another --output, or "
            f"delete their folders in {experiment.path / 'runs'} to run them anew"
        )


def _changed(experiment: Experiment, name: str, recipe: Recipe) -> str:
    """The keys in which a run in the folder, if there is one, is of another recipe."""
    from dllmzoo.recipe import difference, load
    from dllmzoo.training.folder import RunFolder

    run = RunFolder(experiment.path / "runs" / name)
    keys = difference(load(run.recipe), recipe) if run.recipe.exists() else []
    return ", ".join(
        k for k in keys if not any(k == m or k.startswith(f"{m}.") for m in MAY_DIFFER)
    )


def _silent(text: str) -> None:
    """Say nothing."""
