"""The run folder: recipe, manifest, metrics, rollouts; created, resumed, never overwritten."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dllmzoo.errors import RunError, UsageError
from dllmzoo.training import checkpoint
from dllmzoo.training.files import write_bytes, write_json

FORMAT = 1
OURS = (
    "recipe.resolved.yaml", "metrics.jsonl", "rollouts", "checkpoints", "final",
    "evaluations.json", "evaluations", "trackers", "manifest.json",
)  # fmt: skip
"""What a run writes. The manifest is deleted last: it marks the folder as ours until then."""
MAY_DIFFER = (
    "train.rounds", "train.max_minutes", "train.save_every", "train.keep_last", "train.async_save",
    "train.trackers", "train.log_rollouts", "output", "evaluate", "smoke", "title",
)  # fmt: skip
"""Recipe keys that a resumed run may change: they move no number of a round."""


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run and what is written there."""

    path: Path

    @property
    def recipe(self) -> Path:
        """recipe.resolved.yaml: the recipe with every default written out."""
        return self.path / "recipe.resolved.yaml"

    @property
    def metrics(self) -> Path:
        """metrics.jsonl: one line per round."""
        return self.path / "metrics.jsonl"

    @property
    def final(self) -> Path:
        """final/: a Hugging Face folder that loads alone."""
        return self.path / "final"

    def exists(self) -> bool:
        """Whether the folder holds anything."""
        return self.path.is_dir() and any(self.path.iterdir())

    def clear(self) -> None:
        """Delete what a run writes, and nothing else.

        Raises:
            UsageError: the folder is not one of a run.
        """
        left = [self.path / f".{name}.{end}" for name in OURS for end in ("tmp", "old")]
        foreign = self.exists() and not set(self.path.iterdir()) <= set(left)
        if foreign and not {"format", "seed", "versions"} <= self.manifest().keys():
            raise UsageError(
                f"{self.path} is not empty and not a run folder (no manifest.json of a run): "
                f"dllmzoo deletes nothing in it; choose another `output`"
            )
        for target in (*left, *(self.path / name for name in OURS)):
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)

    def manifest(self) -> dict[str, Any]:
        """manifest.json, or an empty mapping."""
        file = self.path / "manifest.json"
        if not file.exists():
            return {}
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise RunError(f"{file} is damaged: it must hold a JSON object; mend or delete it")
        return found

    def note(self, **entries: Any) -> None:
        """Add entries to manifest.json."""
        write_json(self.path / "manifest.json", self.manifest() | entries)

    def append(self, row: dict[str, Any]) -> None:
        """One line of metrics.jsonl, on disk when this returns."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> list[dict[str, Any]]:
        """Every complete line of metrics.jsonl; a torn last line is left out."""
        if not self.metrics.exists():
            return []
        rows = []
        for line in self.metrics.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return rows

    def cut_back(self, round: int) -> None:
        """Drop every line after a round, and a torn last one."""
        kept = [json.dumps(row) + "\n" for row in self.rows() if row["round"] <= round]
        write_bytes(self.metrics, "".join(kept).encode())
        for file in (self.path / "rollouts").glob("*.jsonl.gz"):
            if int(file.name.partition(".")[0]) > round:
                file.unlink()

    def write_rollouts(self, round: int, lines: list[dict[str, Any]]) -> None:
        """rollouts/ROUND.jsonl.gz, the same bytes for the same lines."""
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_bytes(
            self.path / "rollouts" / f"{round:06d}.jsonl.gz", gzip.compress(text.encode(), mtime=0)
        )

    def note_solved(self, when: str, steps: int | None, solved: Sequence[bool]) -> None:
        """Per-example outcomes of the `start` or the `end`, for paired intervals."""
        file = self.path / "evaluations.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        known.setdefault(when, {})[str(steps)] = [int(hit) for hit in solved]
        write_json(file, known)

    def forget_end(self) -> None:
        """Drop the outcomes of an end that a resumed run goes beyond."""
        file = self.path / "evaluations.json"
        if file.exists():
            known = json.loads(file.read_text())
            write_json(file, {when: found for when, found in known.items() if when != "end"})

    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint."""
        found = checkpoint.checkpoints(self.path)
        return found[-1] if found else None


def finished(folder: RunFolder, rounds: int, max_minutes: float | None) -> bool:
    """Whether the run of this folder has nothing left to do under these limits."""
    done = folder.manifest().get("finished")
    last = folder.last_checkpoint()
    if not done or last is None or not folder.final.is_dir():
        return False
    state = checkpoint.read_state(last)
    out_of_time = max_minutes is not None and state.minutes >= max_minutes
    return state.round >= rounds or out_of_time


def refuse_folder(
    folder: RunFolder, resume: str | Path | None, overwrite: bool, weights: str | None
) -> None:
    """Raise if a run may not start, or go on, in this folder; touches nothing.

    Args:
        folder: of the run.
        resume: None, `auto`, or the folder itself.
        overwrite: whether what is there may be deleted.
        weights: where the run starts from, if it is a folder.

    Raises:
        UsageError: says which flag or key to change.
    """
    file = next((each for each in (folder.path, *folder.path.parents) if each.is_file()), None)
    if file is not None:
        raise UsageError(
            f"the run folder cannot be made: {file} is a file; choose another `output=`"
        )
    if resume is not None and overwrite:
        raise UsageError("--resume and --overwrite exclude each other: go on, or start afresh")
    if resume not in (None, "auto") and not folder.recipe.exists():
        raise UsageError(
            f"{folder.path} holds no run to go on with (no {folder.recipe.name}); name a run "
            f"folder, or use `--resume auto` for the one that `output` names"
        )
    held = [
        name for name in ("metrics.jsonl", "checkpoints", "final") if (folder.path / name).exists()
    ]
    if resume == "auto" and held and not folder.recipe.exists():
        raise UsageError(
            f"{folder.path} holds {', '.join(held)} but no {folder.recipe.name}: it is not a run "
            f"that can go on, and nothing in it is touched; choose another `output=`"
        )
    if resume is None and not overwrite and folder.exists():
        raise UsageError(
            f"{folder.path} is not empty; go on with `--resume auto`, replace it with "
            f"`--overwrite`, or choose another `output=`"
        )
    if overwrite and weights and _inside(Path(weights).expanduser(), folder.path):
        raise UsageError(
            f"the run starts from model.weights {weights}, which --overwrite would delete; "
            f"choose another `output=`"
        )


def _inside(path: Path, folder: Path) -> bool:
    return path.exists() and path.resolve().is_relative_to(folder.resolve())


def refuse_another_recipe(folder: RunFolder, keys: list[str]) -> None:
    """Raise if a resumed run's recipe differs in anything that moves a number.

    Args:
        folder: of the run.
        keys: dotted keys in which its recipe and the new one differ.

    Raises:
        RunError: names the differing keys.
    """
    fatal = [
        key
        for key in keys
        if not any(key == may or key.startswith(f"{may}.") for may in MAY_DIFFER)
    ]
    if fatal:
        raise RunError(
            f"{folder.path} was made by another recipe: {', '.join(fatal)} differ; resume with "
            f"the recipe of the run ({folder.recipe}) or choose another `output`"
        )
