"""Arms over processes that each import the libraries once and then run arm after arm."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from dllmzoo.errors import Interrupted
from dllmzoo.lab.runs import AT_ONCE, Arm

TICK = 0.2
"""Seconds between looks at whether a signal came."""


def run_in_processes(
    arms: Sequence[Arm], folder: Path, jobs: int, keep: Callable[..., None]
) -> None:
    """Run arms in `jobs` processes; `keep(arm, status, message)` is called as each ends.

    A worker that dies fails its arm and is replaced.

    Raises:
        Interrupted: a signal asked to stop; running arms have saved.
    """
    from dllmzoo.training.interrupt import stop_request

    waiting = deque(arms)
    workers: list[_Worker] = []
    stopped = ""
    with stop_request() as stop:
        try:
            workers += [_start(folder, jobs) for _ in range(jobs)]
            for worker in workers:
                worker.give(waiting)
            while any(worker.arm for worker in workers):
                connection.wait([worker.pipe for worker in workers if worker.arm], TICK)
                for i, worker in enumerate(workers):
                    if worker.arm is None or not worker.pipe.poll():
                        continue
                    arm = worker.arm
                    status, message = worker.result()
                    if status == "interrupted":
                        stopped = message
                    elif status != "died":
                        keep(arm, status, message)
                    elif not stop.signal:
                        keep(arm, "failed", message)
                        workers[i] = worker = _start(folder, jobs)
                    if not stop.signal and not stopped:
                        worker.give(waiting)
                if stop.signal or stopped:
                    for worker in workers:
                        worker.ask_to_stop()
        except KeyboardInterrupt:
            for worker in workers:
                worker.process.kill()
            raise Interrupted(AT_ONCE) from None
        finally:
            for worker in workers:
                worker.end()
    if stop.signal or stopped:
        raise Interrupted(
            f"stopped by {stop.signal}, all runs saved; the same command goes on"
            if stop.signal
            else stopped
        )


@dataclass
class _Worker:
    """A process, the pipe to it, and the arm it works on."""

    process: Any
    pipe: Any
    arm: Arm | None = None
    asked: bool = False

    def give(self, waiting: deque[Arm]) -> None:
        """Hand over the next arm, if one is left."""
        if waiting:
            self.arm = waiting.popleft()
            self.pipe.send(self.arm)

    def result(self) -> tuple[str, str]:
        """How the arm ended; the worker is then free."""
        self.arm = None
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            hint = ": the system may have run out of memory, try fewer --jobs" if code == -9 else ""
            return "died", f"its process ended with exit code {code}{hint}"

    def ask_to_stop(self) -> None:
        """Have the round finished and saved."""
        if self.arm is not None and not self.asked:
            self.asked = True
            self._send("stop")

    def end(self) -> None:
        """Let the process go, and wait for it."""
        self._send(None)
        self.pipe.close()
        self.process.join()

    def _send(self, message: Any) -> None:
        with suppress(OSError):  # the process is gone; its end is seen elsewhere
            self.pipe.send(message)


def _start(folder: Path, jobs: int) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, str(folder)))
    with _share_of_cores(jobs):
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _share_of_cores(jobs: int) -> Iterator[None]:
    """What torch's thread pool reads in a process started inside the block.

    Waiting threads sleep: spinning ones would take the cores from the other processes.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = max(1, (cores or 1) // jobs)
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit():
        threads = max(1, min(threads, int(wanted)))
    changes = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(pipe: Any, folder: str) -> None:
    """Life of a worker: an arm in, how it ended out, until told to end or left alone."""
    from dllmzoo.training.interrupt import stop_request

    with stop_request() as stop:
        asked = _Asked(pipe)
        while not asked.leave:
            try:
                arm = pipe.recv()
            except (EOFError, KeyboardInterrupt):
                return
            if arm is None:
                return
            from dllmzoo.lab._arm import train_arm

            asked.stop = False
            ended = train_arm(arm, Path(folder), lambda: stop.signal is not None or asked())
            try:
                pipe.send(ended)
            except OSError:
                return


class _Asked:
    """Whether the parent asked this worker to stop, or is gone."""

    def __init__(self, pipe: Any) -> None:
        self.pipe = pipe
        self.stop = False
        self.leave = False

    def __call__(self) -> bool:
        """Read what waits in the pipe."""
        try:
            while self.pipe.poll():
                self.leave |= self.pipe.recv() is None
                self.stop = True
        except (EOFError, OSError):
            self.stop = self.leave = True
        return self.stop or self.leave
