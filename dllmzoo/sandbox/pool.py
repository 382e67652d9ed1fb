"""Tests of many programs at once, in worker processes that are started once."""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import logging
import math
import os
import queue
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from dllmzoo.sandbox.staged import remove_left_over
from dllmzoo.sandbox.suite import Limits, Suite, Verdict
from dllmzoo.sandbox.workers import Handle, SandboxError, missing_bubblewrap

log = logging.getLogger("dllmzoo")

Isolation = Literal["bubblewrap", "subprocess"]
REMEMBERED = 4096
"""Programs whose verdicts are kept, so that rewards and metrics of one text cost one run."""
LONGEST_CODE = 200_000
"""Characters; longer programs are errors without being run."""
LARGEST_BITS = 1 << 36
"""A power of literals above this fits no memory and would only use up its time."""


class Sandbox:
    """Runs programs against their tests.

    Args:
        isolation: `bubblewrap`, or `subprocess` for limits only.
        limits: of each program.
        workers: programs at once; None takes one for each core, shared by the ranks of a machine.
    """

    def __init__(
        self, isolation: Isolation, limits: Limits | None = None, workers: int | None = None
    ) -> None:
        """Nothing is started before the first program."""
        self.isolation: Isolation = isolation
        self.limits = limits or Limits()
        self.workers = workers or _cores()
        self._known: dict[tuple[str, Suite], tuple[Verdict, ...]] = {}
        self._reset()
        _LIVING.append(self)

    def _reset(self) -> None:
        self._idle: queue.SimpleQueue[Handle | None] = queue.SimpleQueue()
        self._handles: list[Handle] = []
        self._lock = threading.Lock()
        for _ in range(self.workers):
            self._idle.put(None)

    def run(self, programs: Sequence[tuple[str, Suite]]) -> list[tuple[Verdict, ...]]:
        """The verdicts of all programs, one for each test.

        May be called from several threads.

        Args:
            programs: source and tests.

        Raises:
            SandboxError: no sandbox can be started here.
        """
        new = [each for each in dict.fromkeys(programs) if each not in self._known]
        found = dict(self._known)
        if len(new) == 1:
            found[new[0]] = self._verdicts(*new[0])
        elif new:
            threads = ThreadPoolExecutor(min(self.workers, len(new)))
            try:
                verdicts = threads.map(lambda each: self._verdicts(*each), new)
                found.update(zip(new, verdicts, strict=True))
            finally:  # an interrupt does not wait for programs that have not begun
                threads.shutdown(cancel_futures=True)
        for each in new:
            self._known[each] = found[each]
        while len(self._known) > REMEMBERED:
            self._known.pop(next(iter(self._known)))
        return [found[each] for each in programs]

    def start(self) -> None:
        """Start one worker, if none is there.

        Raises:
            SandboxError: it does not start; says why, and what to do.
        """
        with self._worker():
            return

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            handles, self._handles = self._handles, []
        for handle in handles:
            handle.close()

    def abandon(self) -> None:
        """In a forked child: forget the parent's workers without ending them."""
        _ABANDONED.extend(self._handles)
        self._reset()

    @contextlib.contextmanager
    def _worker(self) -> Any:
        handle = self._idle.get()
        try:
            if handle is None or handle.worker is None:
                handle = self._started()
            yield handle
        finally:
            self._idle.put(handle)

    def _started(self) -> Handle:
        if self.isolation == "bubblewrap" and (missing := missing_bubblewrap()):
            raise SandboxError(missing)
        handle = Handle(self.isolation, self.limits)
        with self._lock:
            first = not self._handles
            self._handles.append(handle)
        if first:
            if removed := remove_left_over():
                log.info(f"{removed} folders of sandboxes were removed whose run was killed")
            log.info(f"programs run in the sandbox {self.isolation} with {handle.python}")
            if handle.other_python:
                log.warning(
                    f"the Python of this run lies where the sandbox cannot reach it; programs run "
                    f"with {handle.python}, and without the packages installed here"
                )
        if first and self.isolation == "subprocess":
            log.warning(
                "the sandbox `subprocess` limits time, memory, files and processes of programs; it "
                "keeps them neither from the network nor from files that you can read"
            )
        return handle

    def _verdicts(self, code: str, suite: Suite) -> tuple[Verdict, ...]:
        number = len(suite.tests)
        if len(code) > LONGEST_CODE or "\0" in code:
            return (Verdict("error", "the program is too long, or holds a zero byte"),) * number
        if endless_power(code):
            return (Verdict("timeout", "a power of numbers that no memory holds"),) * number
        request = {
            "code": code.encode("utf-8", "replace").decode(),
            "setup": suite.setup,
            "tests": suite.tests,
            "names": suite.names,
            "objects": suite.objects,
        }
        seconds = (number + 2) * (self.limits.seconds + 2) + 240
        for _ in range(2):
            with self._worker() as handle:
                results = handle.ask(request, seconds)
                if results is None:
                    handle.close()
            if results is not None:
                return tuple(Verdict(outcome, detail) for outcome, detail in results)  # type: ignore[arg-type]
        log.warning(
            "a worker of the sandbox ended twice over one program, which counts as an error"
        )
        return (Verdict("error", "the sandbox ended twice over this program"),) * number


def endless_power(code: str) -> bool:
    """Whether a program raises literal numbers to a power that no memory holds, as 99**99**99."""
    if "**" not in code:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
        powers = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)]
        return any(isinstance(node.op, ast.Pow) and _bits(node) > LARGEST_BITS for node in powers)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _bits(node: ast.AST) -> float:
    """About log2 of the absolute value of an integer written in literals; 0 for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return math.log2(node.value) if node.value > 0 else 0.0
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, exponent = _bits(node.left), _bits(node.right)
        return base * 2.0 ** min(exponent, 1000.0)
    return 0.0


@functools.cache
def shared(isolation: Isolation, limits: Limits, workers: int | None) -> Sandbox:
    """The sandbox of this process with these settings, so that tasks need not each have one."""
    return Sandbox(isolation, limits, workers)


def _cores() -> int:
    """Cores of this process, shared with the other processes of its run on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) // int(os.environ.get("LOCAL_WORLD_SIZE") or 1))


_LIVING: list[Sandbox] = []
_ABANDONED: list[Handle] = []
"""Workers of a parent process: kept, so that a forked child does not end them."""


def _close_all() -> None:
    for sandbox in _LIVING:
        sandbox.close()


def _abandon_all() -> None:
    for sandbox in _LIVING:
        sandbox.abandon()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
