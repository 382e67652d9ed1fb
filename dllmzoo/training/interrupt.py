"""Signals: the first asks the run to finish its round and save, the second stops at once."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("dllmzoo")

CAUGHT = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)
)


ECHO = 2.0
"""Seconds in which a launcher of several processes may pass on a Ctrl-C that they got already."""


class StopRequest:
    """Whether the run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        """Nothing asked yet."""
        self.signal: str | None = None
        self.echo_until = 0.0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.signal is not None:
            if time.monotonic() < self.echo_until:
                return
            raise KeyboardInterrupt
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            self.echo_until = time.monotonic() + ECHO
        self.signal = signal.Signals(number).name
        log.warning(
            "%s: finishing this round, then saving; a second one stops at once", self.signal
        )


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Catch the stop signals inside the block; outside the main thread nothing is caught.

    A block around this one is told at the end: what was asked inside was asked of it too.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request.handle) for number in CAUGHT}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
            outer = getattr(handler, "__self__", None)
            if isinstance(outer, StopRequest) and outer.signal is None:
                outer.signal, outer.echo_until = request.signal, request.echo_until
