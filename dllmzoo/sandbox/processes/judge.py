"""The process that runs tests: a fork of it for each answer, and never a line of the answer."""

from __future__ import annotations

import ast
import builtins
import collections  # noqa: F401  (tests use these; each fork has them for nothing)
import importlib
import json
import math  # noqa: F401
import os
import re  # noqa: F401
import signal
import socket
import sys
import time
import types
from typing import Any

from . import stand_in
from .confine import PR_SET_DUMPABLE, control, settle
from .folders import delete
from .remote import TESTS, Answer
from .wire import Channel, Gone

LIBRARY = (
    "bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools",
    "heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "sys",
    "time", "typing",
)  # fmt: skip
"""Modules that tests may use without an import of their own."""
SHOWN = 300
START_SECONDS = 60.0
"""How long the process of an answer may take to get ready on a busy machine."""


class Names(dict[str, Any]):
    """The global names of the tests: what they do not define is looked for in the answer.

    Built-in names are never the answer's, unless the data set says that it asks for them: `set`
    in a test is not what the answer calls so.
    """

    def __init__(self, answer: Answer, defined: list[str], asked: list[str]) -> None:
        """Take what is asked for."""
        super().__init__(__name__=TESTS, __builtins__=builtins)
        self.answer, self.defined = answer, frozenset(defined)
        self.update({name: self.of_answer(name) for name in asked if name in self.defined})

    def of_answer(self, name: str) -> Any:
        """A global of the answer."""
        return self.answer.ask(("get", name))

    def __missing__(self, name: str) -> Any:
        """A module, or a name that only the answer has."""
        if hasattr(builtins, name) or name.startswith("__"):
            raise KeyError(name)
        if name in LIBRARY:
            self[name] = importlib.import_module(name)
        elif name in self.defined:
            self[name] = self.of_answer(name)
        else:
            raise KeyError(name)
        return self[name]


class Solution(types.ModuleType):
    """The answer as a module that tests import from."""

    def __init__(self, names: Names, asked: list[str], setup: str) -> None:
        """Offer its own names to an import of everything, but none that hides one of the tests."""
        super().__init__("solution")
        self._names = names
        public = {n for n in names.defined if not n.startswith("_") and not hasattr(builtins, n)}
        public -= {*LIBRARY, *bound(setup)}
        self.__all__ = sorted(public | (set(asked) & names.defined))

    def __getattr__(self, name: str) -> Any:
        """A global of the answer."""
        if name.startswith("__") or name not in self._names.defined:
            raise AttributeError(f"the program does not define {name!r}")
        return self._names.of_answer(name)


def bound(setup: str) -> set[str]:
    """Names that tests define, or import from elsewhere than the answer."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(setup)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif (
            isinstance(node, ast.Import | ast.ImportFrom)
            and getattr(node, "module", None) != "solution"
        ):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return names


def judged(request: dict[str, Any], answer: Answer, report: Any) -> None:
    """Run the tests of a request from its `start` on, and report each as it ends.

    Args:
        request: `code`, `setup`, `tests`, `names`, `start`, `seconds` for each test.
        answer: its process, which has loaded nothing.
        report: called with `index, outcome, detail`; index -1 means that no test can be run, -3
            that the first begins.
    """
    seconds, asked = request["seconds"], request["names"]

    def attempt(index: int, action: Any) -> bool:
        answer.channel.allow(time.monotonic() + seconds)
        outcome, detail = "pass", ""
        try:
            action()
        except Gone as gone:
            outcome, detail = gone.outcome, gone.detail
        except BaseException as error:
            own = isinstance(error, AssertionError) and not hasattr(error, "of_the_answer")
            outcome, detail = "fail" if own else "error", f"{type(error).__name__}: {error}"
        if answer.gone is not None:  # whatever the test made of it
            outcome, detail = answer.gone.outcome, answer.gone.detail
        if index >= 0 or outcome != "pass":
            report(index, "error" if index < 0 and outcome == "fail" else outcome, detail[:SHOWN])
        return answer.gone is None and (index >= 0 or outcome == "pass")

    names: Any = None

    def prepare() -> None:
        nonlocal names
        defined = [str(name) for name in answer.ask(("load", request["code"], answer.objects))]
        names = Names(answer, defined, asked)
        sys.modules["solution"] = Solution(names, asked, request["setup"])
        sys.modules["pytest"] = stand_in.module()
        module = types.ModuleType(TESTS)
        sys.modules[TESTS] = module
        exec(compiled(request["setup"], "setup"), names)
        for name in asked:  # a definition of the data set must not hide the answer's
            if name in names.defined:
                names[name] = names.of_answer(name)

    if not attempt(-1, prepare):
        return
    report(-3, "ready", "")
    for index in range(request["start"], len(request["tests"])):
        test = request["tests"][index]
        if not attempt(index, lambda: exec(compiled(test, "test"), names)):  # noqa: B023
            return


def compiled(source: str, name: str) -> Any:
    """Code without the `__future__` of this file: annotations are what they are written as."""
    return compile(source, name, "exec", dont_inherit=True)


def run(program: int, results: int, most: int) -> None:
    """Serve one request in a fork: read it, run its tests, end.

    Args:
        program: socket to the answer's process.
        results: socket to the worker.
        most: bytes that the answer may send for one test.
    """
    channel = Channel(results, 1 << 30)
    request = json.loads(channel.receive())
    stops = "StopIteration" in "".join((request["setup"], *request["tests"]))
    answer = Answer(Channel(program, most), request["objects"], stops)

    def report(index: int, outcome: str, detail: str) -> None:
        channel.send(json.dumps([index, outcome, detail]).encode())

    answer.channel.allow(time.monotonic() + START_SECONDS)
    try:
        answer.channel.receive()
    except Gone as gone:
        report(-2, gone.outcome, "the process of the program does not start")
        return
    judged(request, answer, report)


def main(fd: int, limits: dict[str, Any], parent: int | None) -> None:
    """Fork for each request of the worker until it closes the socket.

    Args:
        fd: of the socket; a byte with two sockets asks for a fork, the next byte for its end.
        limits: as `settle` takes them, and `output`, bytes.
        parent: process to end with; None where the sandbox sees to that, which has its own space
            of process numbers then.
    """
    settle(limits, parent)
    if parent is not None:
        control(PR_SET_DUMPABLE, 0)  # no other process of this user may read the tests in here
    worker = socket.socket(fileno=fd)
    worker.sendall(b"+")
    while True:
        asked, sockets, _, _ = socket.recv_fds(worker, 1, 2)
        if not asked:
            os._exit(0)
        child = os.fork()
        if child == 0:
            try:
                os.setpgid(0, 0)
                worker.close()
                run(sockets[0], sockets[1], limits["output"])
            except BaseException:
                os._exit(1)
            os._exit(0)
        for each in sockets:
            os.close(each)
        worker.recv(1)
        end(child, alone=parent is None)
        clean(limits["folder"])
        worker.sendall(b"-")


def end(child: int, *, alone: bool) -> None:
    """Kill a fork and all that it started."""
    for kill, target in ((os.kill, child), (os.kill, -1) if alone else (os.killpg, child)):
        try:
            kill(target, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    os.waitpid(child, 0)
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return
        except ChildProcessError:
            return


def clean(folder: str) -> None:
    """Leave nothing for the next tests."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            delete(entry.path)
        else:
            os.unlink(entry.path)
