"""When and how a run writes its checkpoints: at once, or behind the back of training."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from dllmzoo.errors import RunError
from dllmzoo.models._sharded import is_sharded
from dllmzoo.training import checkpoint
from dllmzoo.training.background import Background
from dllmzoo.training.checkpoint import Snapshot, State
from dllmzoo.training.method import Learner
from dllmzoo.training.watch import Watch, may_be_silent

log = logging.getLogger("dllmzoo")


class Saver:
    """Writes checkpoints, one at a time, and deletes old ones when a new one is complete.

    A context: leaving it waits for a write that is going on.

    Args:
        folder: of the run.
        learner: what is saved.
        keep_last: checkpoints kept besides the best one.
        behind: whether a write may go on while training does. Sharded parameters never do so:
            all processes have to write them together.
        watch: over the processes, if there are several.
    """

    def __init__(
        self, folder: Path, learner: Learner, *, keep_last: int, behind: bool,
        watch: Watch | None = None,
    ) -> None:  # fmt: skip
        """Nothing is written yet."""
        self.folder, self.learner, self.keep_last, self.watch = folder, learner, keep_last, watch
        self.sharded = is_sharded(learner.accelerator.unwrap_model(learner.policy))
        self.behind = behind and not self.sharded
        self._thread = Background("checkpoints")
        self._going_on: Future[None] | None = None

    def __enter__(self) -> Saver:
        """Itself."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Wait; a failed write is told, but does not hide the error that ends the run."""
        if kind is None:
            self.wait()
        self.settle()
        self._thread.finish()

    def save(self, state: State, *, now: bool) -> None:
        """Save what the learner holds; all processes must call.

        Args:
            state: where the run stands.
            now: wait until the checkpoint is complete.

        Raises:
            RunError: it, or the one before, could not be written.
        """
        self.wait()
        main = self.learner.accelerator.is_main_process
        if self.behind and not now:
            if main:
                held = checkpoint.snapshot(state, self.learner)
                self._going_on = self._thread.call(partial(self._write, held))
            return
        with may_be_silent(self.watch):
            if self.sharded:
                checkpoint.save(self.folder, state, self.learner)
                if main:
                    self._prune(state)
            elif main:
                self._write(checkpoint.in_use(state, self.learner))
        self.learner.accelerator.wait_for_everyone()

    def wait(self) -> None:
        """Until no write is going on.

        Raises:
            RunError: it failed.
        """
        going_on, self._going_on = self._going_on, None
        if going_on is not None:
            going_on.result()

    def settle(self) -> None:
        """Until no write is going on; a failed one is told, since another error is on its way."""
        try:
            self.wait()
        except RunError as error:
            log.error("%s", error)

    def check(self) -> None:
        """Raise if a write has failed meanwhile; waits for nothing."""
        if self._going_on is not None and self._going_on.done():
            self.wait()

    def _write(self, held: Snapshot) -> None:
        try:
            checkpoint.write(self.folder, held)
            self._prune(held.state)
        except Exception as error:
            path = checkpoint.path_of(self.folder, held.state.round)
            raise RunError(f"{path} cannot be written: {_said(error)}; {self._left()}") from error

    def _prune(self, state: State) -> None:
        best = None if state.best is None else int(state.best["round"])
        checkpoint.prune(self.folder, self.keep_last, best)

    def _left(self) -> str:
        """What can be gone on from."""
        found = checkpoint.checkpoints(self.folder)
        if not found:
            return "nothing was saved before; make room, or choose another `output`"
        return f"{found[-1]} is complete: make room, then go on from it with --resume auto"


def _said(error: Any) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
