"""How a process is shut in: by bubblewrap, or by limits only."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from .filters import compiled
from .folders import delete

HERE = "/harness"
"""Where the files of this folder are found in the sandbox."""
ROOTS = ("/lib", "/lib64", "/lib32", "/libx32", "/bin", "/sbin")
READABLE = ("/etc/ld.so.cache", "/etc/localtime")
QUIET_LOOKS = 3
OPEN_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
"""One thread for numpy on a machine of many cores, and little address space for each thread: limits
count both."""
OWN_COUNTS = (5, 14)
"""Kernels from here on count the processes of a user in each user namespace apart."""


@dataclass(frozen=True)
class Interpreter:
    """A Python to run in the sandbox.

    Args:
        executable: its path, as programs see it.
        folders: path that programs see -> path here; what it needs, installed packages too.
        library: folders of installed packages, as programs see them.
    """

    executable: str
    folders: dict[str, str]
    library: tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """What all processes of a worker have in common.

    Args:
        isolation: `bubblewrap` or `subprocess`.
        interpreter: that they run.
        staged: a folder that everyone may enter: this package in `code`, room in `temporary`.
        limits: `seconds`, `memory`, `output`, `file`, `processes`, `temporary`.
        bubblewrap: path of `bwrap`.
    """

    isolation: str
    interpreter: Interpreter
    staged: str
    limits: dict[str, Any]
    bubblewrap: str = "bwrap"

    def start(self, part: str, fd: int, user: int | None, errors: Any = None) -> Process:
        """Start `judge` or `program` with one socket.

        Args:
            part: module of this package whose `main` runs.
            fd: the socket.
            user: id to run as; None stays who we are.
            errors: file for what it writes to standard error.
        """
        boxed = self.isolation == "bubblewrap"
        folder = (
            "/tmp" if boxed else os.path.join(self.staged, "temporary", f"{part}-{time.time_ns()}")
        )
        if not boxed:
            os.mkdir(folder, 0o700)
            if user is not None:
                os.chown(folder, user, user)
        limits = {
            "memory": self.limits["memory"] * (1 if part == "program" else 4),
            "file": self.limits["file"],
            "output": self.limits["output"],
            "cpu": 600,
            "processes": self.limits["processes"] + 4 + self._others(user),
            "library": [self._here(path, boxed) for path in self.interpreter.library],
            "folder": folder,
        }
        parent = None if boxed else os.getpid()
        code = os.path.join(self.staged, "code")
        code = (
            f"import sys; sys.path.insert(0, {HERE if boxed else code!r}); "
            f"from processes.{part} import main; main({fd}, {limits!r}, {parent})"
        )
        command = [self._here(self.interpreter.executable, boxed), "-I", "-S", "-B", "-c", code]
        reading, writing = os.pipe()
        passed = [fd]
        if boxed:
            passed += [writing, *self._filter()]
            command = [*self._wrapper(*passed[1:]), *command]
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors or subprocess.DEVNULL,
                pass_fds=passed,
                start_new_session=True,
                cwd="/",
                env=ENVIRONMENT,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        finally:
            for each in {*passed[1:], writing}:
                os.close(each)
        return Process(child, reading, boxed, user, "" if boxed else folder)

    def _here(self, path: str, boxed: bool) -> str:
        """Where a path of the interpreter is to be found: without a sandbox, where it is here."""
        for seen, source in self.interpreter.folders.items():
            if not boxed and path.startswith(seen + "/"):
                return source + path[len(seen) :]
            if not boxed and path == seen:
                return source
        return path

    def _others(self, user: int | None) -> int:
        """Processes that the limit of this user counts too."""
        release = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
        if user is not None or (self.isolation == "bubblewrap" and release >= OWN_COUNTS):
            return 0
        own, threads = os.getuid(), 0
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{entry}").st_uid == own:
                    threads += len(os.listdir(f"/proc/{entry}/task"))
            except OSError:
                continue
        return threads + 32

    def _filter(self) -> list[int]:
        """A file with the filter of system calls, open to be read from its start."""
        path = os.path.join(self.staged, "filter")
        if not os.path.exists(path):
            with open(path, "wb") as file:
                file.write(compiled())
        return [os.open(path, os.O_RDONLY)] if os.path.getsize(path) else []

    def _wrapper(self, info: int, filter_of_calls: int | None = None) -> list[str]:
        """The command of bubblewrap, up to the program."""
        room = str(self.limits["temporary"])
        words = [self.bubblewrap, "--unshare-user", "--unshare-pid", "--unshare-net"]
        words += ["--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += ["--disable-userns"] if version(self.bubblewrap) >= (0, 8) else []
        words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
        for name, value in {"PATH": "/usr/bin:/bin", "HOME": "/tmp", **ENVIRONMENT}.items():
            words += ["--setenv", name, value]
        words += [] if filter_of_calls is None else ["--seccomp", str(filter_of_calls)]
        words += ["--hostname", "sandbox", "--info-fd", str(info), "--ro-bind", "/usr", "/usr"]
        for path in ROOTS:
            if os.path.islink(path):
                words += ["--symlink", os.readlink(path), path]
            else:
                words += ["--ro-bind-try", path, path]
        for path in READABLE:
            words += ["--ro-bind-try", path, path]
        words += ["--dev", "/dev", "--size", room, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        words += ["--size", room, "--tmpfs", "/tmp"]
        for seen, source in self.interpreter.folders.items():
            words += ["--ro-bind", source, seen]
        code = os.path.join(self.staged, "code")
        words += ["--ro-bind", code, HERE, "--chdir", "/tmp", "--remount-ro", "/", "--"]
        return words


def version(bubblewrap: str, known: dict[str, tuple[int, ...]] = {}) -> tuple[int, ...]:  # noqa: B006
    """Of an installed bubblewrap.

    Raises:
        FileNotFoundError: there is none.
    """
    if bubblewrap not in known:
        said = subprocess.run([bubblewrap, "--version"], capture_output=True, text=True).stdout
        known[bubblewrap] = tuple(map(int, re.findall(r"\d+", said)[:2]))
    return known[bubblewrap]


class Process:
    """A process that was started, with everything that it starts.

    Args:
        child: what was started: bubblewrap, or the process itself.
        info: pipe in which bubblewrap says who the first process of its namespace is.
        boxed: whether bubblewrap was started.
        user: it runs as; None = as we do.
        folder: its temporary folder; empty where the namespace takes it along.
    """

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        info: int,
        boxed: bool,
        user: int | None,
        folder: str,
    ) -> None:
        """It runs."""
        KEPT.add(child.pid)
        self.child, self.info, self.boxed, self.user, self.folder = child, info, boxed, user, folder

    def kill(self) -> None:
        """End it and everything that it started; they are gone when this returns."""
        if self.boxed:
            first = self._first()
            if first is not None and self.child.poll() is None:
                _signal(os.kill, first)
            else:
                self.child.kill()
            self.child.wait()
            KEPT.discard(self.child.pid)
            reap()
        else:
            _signal(os.killpg, self.child.pid)
            self.child.wait()
            KEPT.discard(self.child.pid)
            _end_of_user(self.user) if self.user is not None else _end_of_orphans()
            delete(self.folder)
        os.close(self.info)

    def _first(self) -> int | None:
        """The first process of the namespace: all others end with it."""
        try:
            return int(json.loads(os.read(self.info, 4096) or b"{}")["child-pid"])
        except (OSError, ValueError, KeyError):
            return None


def _signal(kill: Any, target: int, number: int = signal.SIGKILL) -> None:
    try:
        kill(target, number)
    except (ProcessLookupError, PermissionError):
        return


def _end_of_user(user: int) -> None:
    """Kill every process of a user that nobody else has, and delete the files it left."""
    child = os.fork()
    if child == 0:
        try:
            become(user)
            _signal(os.kill, -1)
            _delete_files(user)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    _end_of_orphans()


def _delete_files(user: int) -> None:
    """Delete what a user left where everybody may write."""
    for folder in filter(os.path.isdir, OPEN_FOLDERS):
        for entry in os.scandir(folder):
            try:
                if entry.stat(follow_symlinks=False).st_uid != user:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    delete(entry.path)
                else:
                    os.unlink(entry.path)
            except OSError:
                continue


def become(user: int) -> None:
    """Give up all rights for those of a user."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _end_of_orphans() -> None:
    """Kill what an ended child left behind: these processes are below us now.

    All are stopped before any is killed, so that none can start another meanwhile. A process that
    changes parents while we look may be missed, hence the looks without a find.
    """
    while _orphans():
        stopped: set[int] = set()
        quiet = 0
        while quiet < QUIET_LOOKS:
            new = _orphans() - stopped
            quiet = 0 if new else quiet + 1
            for pid in new:
                _signal(os.kill, pid, signal.SIGSTOP)
            stopped |= new
        for pid in stopped:
            _signal(os.kill, pid)
        for pid in stopped.intersection(_children(os.getpid())):
            os.waitpid(pid, 0)


def _orphans() -> set[int]:
    """Every process below us, but what we started and what is below that."""
    found: set[int] = set()
    below = [pid for pid in _children(os.getpid()) if pid not in KEPT]
    while below:
        found.update(below)
        below = [each for pid in below for each in _children(pid) if each not in found]
    return found


KEPT: set[int] = set()
"""Children that we started: they go on when the process of an answer ends."""


def reap() -> None:
    """Take note of the end of processes that became children of ours."""
    for pid in _children(os.getpid()):
        if pid not in KEPT:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _children(pid: int) -> list[int]:
    """Of all threads of a process."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    except OSError:  # it ended
        return found
    return found


def interpreter_here(library: tuple[str, ...]) -> Interpreter:
    """The Python that runs this, with its packages."""
    executable = os.path.realpath(sys.executable)
    needed = {sys.base_prefix, sys.base_exec_prefix, os.path.dirname(os.path.dirname(executable))}
    folders = {path: path for path in sorted({*needed, *library}) if not _system(path)}
    return Interpreter(executable, folders, library)


def _system(path: str) -> bool:
    return path == "/usr" or path.startswith("/usr/") or not os.path.isdir(path)
