"""A watch over the processes of a run: when one is gone, all end, soon and with a clear word."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from dllmzoo.errors import HealthError, Interrupted, RunError

BEAT = 2.0
"""Seconds between two signs of life."""
SILENCE = 30.0
"""Seconds without one after which a process counts as gone."""
GRACE = 5.0
"""Seconds that are left to a process to end by its own error once another one has failed."""
DONE = 1_000_000_000
"""Added to the count of beats by a process that ended well, or that may be silent for a while."""
RUNS = itertools.count()
"""Runs of this process so far; all processes of a set make the same ones."""
CONNECTION = (
    "gloo", "nccl", "closed by peer", "reset by peer", "broken pipe", "timed out waiting",
)  # fmt: skip
"""Words in what torch says when another process no longer answers."""


@contextmanager
def watched(accelerator: Any, advice: Callable[[], str]) -> Iterator[Watch | None]:
    """Inside the block this process ends, with exit code 1, if another one of the run is gone.

    A killed process, a lost machine and a process that hangs are noticed within `SILENCE` seconds
    through signs of life in the store that the launcher keeps; a closed connection at once.

    Args:
        accelerator: of the run; one process alone is not watched.
        advice: what to do then, as the end of a sentence.

    Yields:
        The watch, to be told of long silences (`may_be_silent`); None for one process.

    Raises:
        RunError: an exchange failed because another process is gone.
    """
    if accelerator.num_processes == 1:
        yield None
        return
    rank, world = accelerator.process_index, accelerator.num_processes
    watch = Watch(open_store(), rank, world, advice=advice)
    watch.start()
    try:
        yield watch
    except (HealthError, Interrupted, GeneratorExit):  # raised by all processes together
        watch.stop()
        raise
    except RuntimeError as error:
        _ignore_launcher()
        watch.stop(failed=f"process {rank} failed: {error}")
        if is_lost_connection(error):
            raise RunError(
                f"another of the {world} processes of this run is gone ({first_line(error)}); "
                f"{advice()}"
            ) from error
        raise
    except BaseException as error:
        watch.stop(failed=f"process {rank} failed: {type(error).__name__}: {first_line(error)}")
        raise
    else:
        watch.stop()


@contextmanager
def may_be_silent(watch: Watch | None) -> Iterator[None]:
    """Around work that may hold Python's lock for long: reading or writing a large model."""
    if watch is None:
        yield
        return
    watch.count(DONE)
    try:
        yield
    finally:
        watch.count(-DONE)


def _ignore_launcher() -> None:
    """Let this process say what happened: the launcher is about to terminate all that are left."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def is_lost_connection(error: RuntimeError) -> bool:
    """Whether torch raised it because another process no longer answers."""
    from torch import distributed

    if isinstance(error, distributed.DistError):
        return True
    text = str(error).lower()
    return type(error) is RuntimeError and any(word in text for word in CONNECTION)


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def open_store() -> Any:
    """A connection of its own to the store at which the processes found each other."""
    from torch import distributed

    store = distributed.TCPStore(  # type: ignore[attr-defined]
        os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ["MASTER_PORT"]),
        is_master=False, wait_for_workers=False, timeout=timedelta(seconds=SILENCE / 2),
    )  # fmt: skip
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    name = f"dllmzoo/watch/{attempt}/{next(RUNS)}"
    return distributed.PrefixStore(name, store)  # type: ignore[attr-defined]


def leave(message: str) -> None:
    """Say why and end this process at once, whatever it waits for."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os._exit(1)


class Watch(threading.Thread):
    """Gives signs of life, and looks for those of the next process in the ring.

    Args:
        store: counts of beats by `add(key, number)`.
        rank: of this process.
        world: processes.
        advice: what to do when one is gone.
        leave: ends this process.
        beat: seconds between two signs of life.
        silence: seconds without one after which the next process counts as gone.
        grace: seconds left to this process to end by its own error.
    """

    def __init__(
        self, store: Any, rank: int, world: int, *, advice: Callable[[], str],
        leave: Callable[[str], None] = leave, beat: float = BEAT, silence: float = SILENCE,
        grace: float = GRACE,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True, name="watch over the processes")
        self.store, self.rank, self.world = store, rank, world
        self.advice, self.leave = advice, leave
        self.beat, self.silence, self.grace = beat, silence, grace
        self.ended = threading.Event()

    def run(self) -> None:
        """Beat until stopped; leave when another process has failed or fallen silent."""
        following = (self.rank + 1) % self.world
        seen, heard = -1, time.monotonic()
        while not self.ended.wait(self.beat):
            try:
                self.store.add(f"beat/{self.rank}", 1)
                count = self.store.add(f"beat/{following}", 0)
                failed = self.store.add("failed", 0)
            except RuntimeError as error:  # its host is gone, or all is over
                self._leave(f"the store of the launcher is gone ({first_line(error)})")
                return
            if failed:
                self._leave(self.store.get("message").decode())
                return
            if count != seen or count >= DONE:
                seen, heard = count, time.monotonic()
            elif time.monotonic() - heard > self.silence:
                self._tell(reason := f"process {following} has been silent for {self.silence:g} s")
                self._leave(f"{reason}: it was killed, it hangs, or its machine is gone")
                return

    def stop(self, failed: str | None = None) -> None:
        """No more signs of life; the others go on if this process ended well."""
        self.ended.set()
        if failed is None:
            self.count(DONE)
        else:
            self._tell(failed)

    def count(self, number: int) -> None:
        """Change the count of this process's beats."""
        with suppress(RuntimeError):
            self.store.add(f"beat/{self.rank}", number)

    def _tell(self, reason: str) -> None:
        """Let all processes know; the first reason stays."""
        with suppress(RuntimeError):
            if self.store.add("failures", 1) == 1:
                self.store.set("message", reason)
                self.store.add("failed", 1)

    def _leave(self, reason: str) -> None:
        """End the process unless it ends by itself."""
        if not self.ended.wait(self.grace):
            self.leave(
                f"[process {self.rank}] {reason}; the run of {self.world} processes ends here; "
                f"{self.advice()}"
            )
