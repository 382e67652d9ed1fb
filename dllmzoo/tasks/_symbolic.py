"""Symbolic equality by math-verify in a worker process that is killed when its time is up.

The worker is an ordinary child process, spoken to through pipes: no signals, no shared state, so it
works from the main thread, from other threads, and in processes that were forked or spawned.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from dllmzoo.errors import TaskError

START_SECONDS = 120.0
"""How long the worker may take to import sympy on a busy machine."""
REMEMBERED = 4096
"""Verdicts kept, so that rewards and metrics of one text cost one comparison."""

TOO_LATE: dict[str, Any] = {"late": True}
"""Stands for a reply that did not come in time."""

INSTALL = "pip install dllmzoo[math]"
REMEDY = f"`{INSTALL}`, or set `task.symbolic: off` to compare strings and numbers only"
_WORKER = Path(__file__).with_name("_symbolic_worker.py")
_LIBRARY = "math_verify"


class CheckerError(TaskError):
    """The checker itself failed: nothing is known about the answer."""


def missing_library() -> str | None:
    """What to do before symbolic checks are possible; None where this process's worker is ready."""
    if absent := _not_found():
        return absent
    try:
        CHECKER.start()
    except CheckerError as error:
        return str(error)
    return None


def _not_found() -> str | None:
    """What to do if the library is not installed, or cannot be looked for; nothing is imported."""
    try:
        if importlib.util.find_spec(_LIBRARY) is not None:
            return None
        cause = "is not installed"
    except Exception as error:
        cause = f"cannot be looked for ({type(error).__name__}: {error})"
    return f"symbolic answers are compared by math-verify, which {cause}: {REMEDY}"


class SymbolicChecker:
    """One worker process and the verdicts it gave; threads take turns."""

    def __init__(self) -> None:
        """Nothing is started before the first question."""
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._pending = b""
        self._known: dict[tuple[str, str, float], bool | TimeoutError] = {}

    def equal(self, answer: str, gold: str, limit: float) -> bool:
        """Whether math-verify holds two results for equal; False if it cannot read one.

        Args:
            answer: LaTeX of the answer, without a box.
            gold: LaTeX of the right one.
            limit: seconds; the worker is killed then and a fresh one takes its place.

        Raises:
            TimeoutError: the limit or the worker's memory did not suffice.
            CheckerError: math-verify is not installed, or no worker can be started.
        """
        key = (answer, gold, limit)
        with self._lock:
            verdict = self._known.get(key)
            if verdict is None:
                verdict = self._asked(answer, gold, limit)
                if len(self._known) >= REMEMBERED:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = verdict
        if isinstance(verdict, TimeoutError):
            raise TimeoutError(*verdict.args)
        return verdict

    def start(self) -> None:
        """Start the worker, if none is ready.

        Raises:
            CheckerError: math-verify is missing or broken, or no worker can be started.
        """
        with self._lock:
            self._start()

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._stop()

    def abandon(self) -> None:
        """In a forked child: forget the parent's worker without ending it."""
        _ABANDONED.append(self._worker)
        self._lock = threading.Lock()
        self._worker, self._ready, self._pending = None, False, b""

    def _asked(self, answer: str, gold: str, limit: float) -> bool | TimeoutError:
        request = {"answer": answer, "gold": gold, "limit": limit}
        reply = self._answered(request) or self._answered(request)
        if reply is None:
            return TimeoutError("the checker ended twice while it compared the answer")
        if reply == TOO_LATE:
            self._stop()
            self._spawn()
            return TimeoutError(f"comparing the answer took longer than {limit:g} s")
        if "memory" in reply:
            self._stop()
            return TimeoutError("comparing the answer took more memory than the checker has")
        return bool(reply.get("equal", False))

    def _answered(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a request; None if the worker ended, before it or over it."""
        try:
            self._start()
            self._send(request)
            reply = self._receive(request["limit"])
        except BrokenPipeError:
            reply = None
        except BaseException:
            self._stop()  # a late reply must never be read as one to the next request
            raise
        if reply is None:
            self._stop()
        return reply

    def _start(self) -> None:
        if self._worker is None or self._worker.poll() is not None:
            self._stop()
            self._spawn()
        if not self._ready:
            reply = self._receive(START_SECONDS) or {"missing": "the worker ended at once"}
            if "ready" not in reply:
                self._stop()
                cause = reply.get("missing", f"not ready after {START_SECONDS:g} s")
                raise CheckerError(
                    _not_found()
                    or f"the checker of maths answers does not start: {cause}; {REMEDY}"
                )
            self._ready = True

    def _spawn(self) -> None:
        """Start a worker; it gets ready while others work."""
        command = [sys.executable, "-P", "-W", "ignore", str(_WORKER)]
        try:
            self._worker = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt of the run is not one of the worker
            )
        except OSError as error:
            raise CheckerError(
                f"the checker of maths answers cannot start: {error}; {REMEDY}"
            ) from error
        self._ready, self._pending = False, b""

    def _stop(self) -> None:
        worker, self._worker, self._ready = self._worker, None, False
        if worker is None:
            return
        worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue

    def _send(self, request: dict[str, Any]) -> None:
        assert self._worker is not None and self._worker.stdin is not None
        self._worker.stdin.write(json.dumps(request).encode() + b"\n")
        self._worker.stdin.flush()

    def _receive(self, limit: float) -> dict[str, Any] | None:
        """One reply; `TOO_LATE` when the limit is over, None when the worker has ended."""
        assert self._worker is not None and self._worker.stdout is not None
        pipe, end = self._worker.stdout.fileno(), time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return TOO_LATE
                piece = os.read(pipe, 65536)
                if not piece:
                    return None
                self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)


_ABANDONED: list[subprocess.Popen[bytes] | None] = []
"""Workers of a parent process: kept, so that a forked child does not warn about them."""

CHECKER = SymbolicChecker()
"""The checker of this process."""

atexit.register(CHECKER.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CHECKER.abandon)
