"""A thread that makes calls one after the other while the loop does something else."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that an abandoned call gets to end: one test of a program, one answer of a server."""


class Stopped(BaseException):
    """Raised in the thread when its work is abandoned."""


class Background:
    """Makes calls in a thread of its own, in the order in which they are asked for.

    The thread starts with the first call and never keeps a process from ending. Whoever asks for
    the result of a call gets its exception, too.

    Args:
        name: of the thread.
        setting: entered in the thread, for what torch keeps for each thread: grad mode, device.
    """

    def __init__(
        self, name: str, setting: Callable[[], AbstractContextManager[Any]] = nullcontext
    ) -> None:
        """Nothing runs yet."""
        self.setting = setting
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def call(self, work: Callable[[], T]) -> Future[T]:
        """Ask for `work()`, in the context variables of the caller."""
        future: Future[T] = Future()
        context = copy_context()
        self._calls.put((future, lambda: context.run(work)))
        if self._thread.ident is None:
            self._thread.start()
        return future

    def finish(self) -> None:
        """Wait for all calls; none may follow."""
        self._calls.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def abandon(self) -> None:
        """Drop what has not begun and interrupt what runs; waits for it, but not for ever."""
        self.drop()
        self._calls.put(None)
        if self._thread.is_alive():
            thread, error = ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(Stopped)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)
            self._thread.join(PATIENCE)

    def drop(self) -> None:
        """Cancel what has not begun."""
        while True:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                return
            if call is not None:
                call[0].cancel()

    def _run(self) -> None:
        try:
            with self.setting():
                while (call := self._calls.get()) is not None:
                    _make(*call)
                    del call  # and with it what the call holds: a copy of the weights, say
        except Stopped:
            return


def _make(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
