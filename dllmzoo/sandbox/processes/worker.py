"""The process that starts judges and programs, one request of the trainer after the other.

It is small, so starting processes is cheap, and it has one thread. Everything it starts ends with
it, and it ends when the trainer closes its standard input or tells it to terminate.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from typing import Any

from . import isolation
from .confine import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, control
from .isolation import Interpreter, Process, Setting, interpreter_here
from .users import reachable, unused_user
from .wire import Channel, Gone

SYSTEM_PYTHON = "/usr/bin/python3"
START_SECONDS = 60.0
GRACE_SECONDS = 1.0
"""How much longer than its limit a test may take before its process is killed from outside."""
TIMEOUTS = 2
"""Tests in a row that may run out of time before the rest are not run and count the same."""
ATTEMPTS = 3
"""How often a process is started that does not get ready."""


class Refused(Exception):
    """No sandbox can be started here."""


class Worker:
    """Runs the tests of one answer at a time.

    Args:
        setting: of all processes.
        users: ids of the judge and of answers; None where we are no root.
    """

    def __init__(self, setting: Setting, users: tuple[int, int] | tuple[None, None]) -> None:
        """Start a judge.

        Raises:
            Refused: it does not start.
        """
        self.setting, self.users = setting, users
        self.spare: tuple[Process, socket.socket] | None = None
        self.control, theirs = socket.socketpair()
        with open(os.path.join(setting.staged, "errors"), "w+b") as errors:
            self.judge = setting.start("judge", theirs.fileno(), users[0], errors)
            theirs.close()
            self.control.settimeout(START_SECONDS)
            if self.control.recv(1) != b"+":
                self.judge.kill()
                errors.seek(0)
                raise Refused(errors.read().decode(errors="replace").strip()[-600:])
        self.control.settimeout(None)

    def results(self, request: dict[str, Any]) -> list[list[str]]:
        """Outcome and detail of each test.

        An answer whose process ends, or is late, in one test gets a fresh one for the next.

        Args:
            request: `code`, `setup`, `tests`, `names`, `objects`.

        Raises:
            Refused: the process of an answer does not start.
        """
        found: list[list[str]] = []
        wanted, refusals = len(request["tests"]), 0
        while len(found) < wanted:
            reports, late = self._attempt({**request, "start": len(found)})
            if reports and reports[0][0] == -2:
                refusals += 1
                if refusals == ATTEMPTS:
                    raise Refused(reports[0][2])
                continue
            if reports and reports[0][0] == -1:
                return found + [reports[0][1:]] * (wanted - len(found))
            found += [report[1:] for report in reports]
            if late:
                found.append(["timeout", "the test takes too long"])
            elif not reports:
                found.append(["error", "the process of the tests ended"])
            if [outcome for outcome, _ in found[-TIMEOUTS:]] == ["timeout"] * TIMEOUTS:
                return found + [found[-1]] * (wanted - len(found))
        return found

    def _attempt(self, request: dict[str, Any]) -> tuple[list[list[Any]], bool]:
        """Reports (index, outcome, detail) of tests in one process; whether one came too late."""
        process, program = self.spare or self._started()
        self.spare = None
        mine, theirs = socket.socketpair()
        channel = Channel(mine.fileno(), 1 << 30)
        seconds = self.setting.limits["seconds"]
        allowed = START_SECONDS + seconds
        reports: list[list[Any]] = []
        try:
            socket.send_fds(self.control, [b"+"], [program.fileno(), theirs.fileno()])
            program.close()
            theirs.close()
            if self.setting.isolation == "bubblewrap":
                self.spare = self._started()
            channel.send(json.dumps({**request, "seconds": seconds}).encode())
            while request["start"] + len(reports) < len(request["tests"]):
                channel.allow(time.monotonic() + allowed + GRACE_SECONDS)
                report = json.loads(channel.receive())
                allowed = seconds
                if report[0] != -3:
                    reports.append(report)
            return reports, False
        except Gone as gone:
            return reports, gone.outcome == "timeout"
        finally:
            mine.close()
            process.kill()
            self.control.sendall(b"-")
            if self.control.recv(1) != b"-":
                raise Refused("the process of the tests ended")

    def _started(self) -> tuple[Process, socket.socket]:
        """A process that waits for an answer, and our end of its socket."""
        mine, theirs = socket.socketpair()
        with theirs:
            return self.setting.start("program", theirs.fileno(), self.users[1]), mine

    def close(self) -> None:
        """End everything."""
        if self.spare is not None:
            self.spare[0].kill()
        self.judge.kill()
        time.sleep(0.01)
        isolation.reap()


def main(config: dict[str, Any]) -> None:
    """Say which Python is used, or why nothing can be started; then serve.

    Requests and replies are JSON, one a line.

    Args:
        config: `isolation`, `staged`, `limits`, `library`, `bubblewrap`.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def reply(**content: Any) -> None:
        replies.write(json.dumps(content) + "\n")
        replies.flush()

    control(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _first_to_be_killed()
    control(PR_SET_DUMPABLE, 0)
    try:
        worker = _worker(config)
    except (Refused, OSError) as error:
        reply(refused=str(error) or type(error).__name__)
        return
    python = worker.setting.interpreter.executable
    reply(ready=python, other=python == SYSTEM_PYTHON)
    try:
        for line in sys.stdin:
            try:
                reply(results=worker.results(json.loads(line)))
            except (Refused, OSError) as error:
                reply(refused=str(error))
                return
    finally:
        worker.close()


def _first_to_be_killed() -> None:
    """Where memory runs out, the system ends what we start, and not the training."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("900")
    except OSError:
        return


def _worker(config: dict[str, Any]) -> Worker:
    """A worker with the first Python that starts."""
    users: tuple[int, int] | tuple[None, None] = (None, None)
    if os.getuid() == 0:
        users = unused_user(), unused_user()
    own: Interpreter | None = interpreter_here(tuple(config["library"]))
    if users[0] is not None:
        own = reachable(own, users[0], os.path.join(config["staged"], "mounts"))
    other = Interpreter(SYSTEM_PYTHON, {}, ()) if os.path.exists(SYSTEM_PYTHON) else None
    refused: list[str] = []
    for interpreter in filter(None, (own, other)):
        setting = Setting(
            config["isolation"],
            interpreter,
            config["staged"],
            config["limits"],
            config["bubblewrap"],
        )
        try:
            return Worker(setting, users)
        except Refused as error:
            refused.append(str(error))
    raise Refused(refused[0] if refused else "there is no Python that the sandbox can reach")
