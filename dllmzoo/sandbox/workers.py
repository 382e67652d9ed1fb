"""Worker processes of the sandbox, as the trainer sees them."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import sysconfig
import time
from typing import Any

from dllmzoo.errors import TaskError
from dllmzoo.sandbox.staged import Staged
from dllmzoo.sandbox.suite import Limits

START_SECONDS = 180.0
REFUSED_NAMESPACES = ("namespace", "uid map", "Operation not permitted", "user.max_user")
INSTALL = "apt-get install bubblewrap"
WEAKER = (
    "nothing weaker is tried by itself; `sandbox: subprocess` sets limits only and keeps answers "
    "neither from your files nor from the network"
)


class SandboxError(TaskError):
    """No sandbox can be started, or it failed; nothing is known about the answers."""


def missing_bubblewrap() -> str | None:
    """What to do where bubblewrap is not installed; None where it is."""
    if shutil.which("bwrap"):
        return None
    return f"bubblewrap (`bwrap`) is not installed: `{INSTALL}`; {WEAKER}"


class Late(Exception):
    """A reply did not come in time."""


class Handle:
    """One worker process.

    Args:
        isolation: `bubblewrap` or `subprocess`.
        limits: of each program.
    """

    def __init__(self, isolation: str, limits: Limits) -> None:
        """Start it.

        Raises:
            SandboxError: it does not start; says why, and what to do.
        """
        if sys.platform != "linux":
            raise SandboxError(f"programs can be run on Linux only, and this is {sys.platform}")
        self.staged = Staged()
        config = {
            "isolation": isolation,
            "staged": self.staged.folder,
            "bubblewrap": shutil.which("bwrap") or "bwrap",
            "library": sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}),
            "limits": {
                "seconds": limits.seconds,
                "memory": limits.memory_mb << 20,
                "output": limits.output_mb << 20,
                "file": limits.file_mb << 20,
                "temporary": limits.file_mb << 20,
                "processes": limits.processes,
            },
        }
        code = (
            f"import sys; sys.path.insert(0, {os.path.join(self.staged.folder, 'code')!r}); "
            f"from processes.worker import main; main({config!r})"
        )
        self.worker: subprocess.Popen[bytes] | None = None
        self._pending = b""
        try:
            self.worker = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-W", "ignore", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt of the run is not one of the worker
            )
            reply = self._receive(START_SECONDS)
        except (OSError, Late) as error:
            self.close()
            raise SandboxError(f"the sandbox cannot start: {error or 'it is late'}") from error
        if reply is None or "ready" not in reply:
            self.close()
            raise SandboxError(_explained(isolation, (reply or {}).get("refused", "it ended")))
        self.python: str = reply["ready"]
        self.other_python: bool = reply["other"]

    def ask(self, request: dict[str, Any], seconds: float) -> list[list[str]] | None:
        """The results of a request; None if the worker ended.

        Raises:
            SandboxError: the worker can start no more programs.
        """
        assert self.worker is not None and self.worker.stdin is not None
        try:
            self.worker.stdin.write(json.dumps(request).encode() + b"\n")
            self.worker.stdin.flush()
            reply = self._receive(seconds)
        except (BrokenPipeError, Late):
            return None
        except BaseException:  # an interrupt: its reply must not be taken for that of the next
            self.close()
            raise
        if reply is None:
            return None
        if "refused" in reply:
            raise SandboxError(f"the sandbox failed: {reply['refused']}")
        return reply["results"]

    def close(self) -> None:
        """End the worker; everything it started ends with it."""
        worker, self.worker = self.worker, None
        if worker is not None:
            assert worker.stdin is not None and worker.stdout is not None
            with contextlib.suppress(OSError):
                worker.stdin.close()
            with contextlib.suppress(OSError):
                worker.terminate()  # it ends what runs, and does not wait for it
            try:
                worker.wait(5)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            worker.stdout.close()
        self.staged.remove()

    def _receive(self, seconds: float) -> dict[str, Any] | None:
        assert self.worker is not None and self.worker.stdout is not None
        pipe, end = self.worker.stdout.fileno(), time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise Late("no reply in time")
                piece = os.read(pipe, 1 << 16)
                if not piece:
                    return None
                self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)


def _explained(isolation: str, refused: str) -> str:
    """Why no sandbox starts, and what to do."""
    if isolation == "bubblewrap" and (missing := missing_bubblewrap()):
        return missing
    if isolation == "bubblewrap" and any(word in refused for word in REFUSED_NAMESPACES):
        return (
            f"bubblewrap needs user namespaces, and they are refused here: {refused}\n"
            "    allow them: `sysctl -w kernel.unprivileged_userns_clone=1` (Debian), "
            "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu), "
            "`user.max_user_namespaces` above 0 (Red Hat), or, in a container, "
            f"`docker run --security-opt seccomp=unconfined`; {WEAKER}"
        )
    return f"the sandbox {isolation} does not start: {refused}"
