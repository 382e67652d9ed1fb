"""Frames of bytes between two processes: a length, then so many bytes."""

from __future__ import annotations

import os
import select
import time

HEADER = 4


class Gone(BaseException):
    """The other process ended, broke the rules, or is late; no test may catch this.

    Args:
        outcome: `error` or `timeout`.
        detail: for people.
    """

    def __init__(self, outcome: str, detail: str) -> None:
        """Keep both."""
        self.outcome, self.detail = outcome, detail
        super().__init__(f"{outcome}: {detail}")


class Channel:
    """One end of a pair of sockets.

    Args:
        fd: of the socket.
        most: bytes that a frame, and all that is received before `allow`, may have.
    """

    def __init__(self, fd: int, most: int) -> None:
        """Nothing is sent."""
        self.fd, self.most, self.left = fd, most, most
        self.deadline: float | None = None
        os.set_blocking(fd, False)

    def allow(self, deadline: float | None) -> None:
        """Begin anew with all bytes, until a deadline of the monotonic clock."""
        self.left, self.deadline = self.most, deadline

    def send(self, text: bytes) -> None:
        """Send one frame.

        Raises:
            Gone: it cannot be sent in time.
        """
        data = memoryview(len(text).to_bytes(HEADER, "big") + text)
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:
                self._wait(writing=True)
            except OSError as error:
                raise Gone("error", "the program ended") from error

    def receive(self) -> bytes:
        """The next frame.

        Raises:
            Gone: it does not come in time, is too long, or the other end is closed.
        """
        size = int.from_bytes(self._read(HEADER), "big")
        if size > self.left:
            raise Gone("error", f"more than {self.most} bytes were sent")
        self.left -= size
        return self._read(size)

    def _read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size:
            try:
                piece = os.read(self.fd, min(size, 1 << 20))
            except BlockingIOError:
                self._wait(writing=False)
                continue
            except OSError as error:
                raise Gone("error", "the program ended") from error
            if not piece:
                raise Gone("error", "the program ended")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _wait(self, *, writing: bool) -> None:
        reads, writes = ([], [self.fd]) if writing else ([self.fd], [])
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and (left <= 0 or not any(select.select(reads, writes, [], left))):
            raise Gone("timeout", "the time is over")
        if left is None:
            select.select(reads, writes, [])
