"""A temporary folder with what sandboxes run, and the removal of those that killed runs left."""

from __future__ import annotations

import compileall
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from dllmzoo.sandbox.processes.folders import OPEN, delete

PREFIX = "dllmzoo-sandbox-"
OWNER = "owner"
"""A file that is locked as long as the process lives that made the folder."""
UNFINISHED_SECONDS = 3600.0
"""A folder without that file is one being made, unless it is older than this."""


class Staged:
    """A temporary folder with what sandboxes run, which every user of the machine can read."""

    def __init__(self) -> None:
        """Copy and compile the processes."""
        self.folder = tempfile.mkdtemp(
            prefix=PREFIX, dir="/tmp" if os.access("/tmp", os.W_OK) else None
        )
        os.chmod(self.folder, 0o755)
        self._lock = os.open(os.path.join(self.folder, "new"), os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(os.path.join(self.folder, "new"), os.path.join(self.folder, OWNER))
        for name in ("code", "mounts", "temporary"):
            os.mkdir(os.path.join(self.folder, name))
            os.chmod(os.path.join(self.folder, name), 0o755)
        target = os.path.join(self.folder, "code", "processes")
        shutil.copytree(
            Path(__file__).with_name("processes"),
            target,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        compileall.compile_dir(target, quiet=2)
        for path in (target, *map(str, Path(target).rglob("*"))):
            os.chmod(path, 0o555 if os.path.isdir(path) else 0o444)

    def remove(self) -> None:
        """Delete the folder."""
        delete(self.folder)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_left_over(below: str = "/tmp") -> int:
    """Delete folders of this user whose process was killed, and count them.

    Args:
        below: where they are looked for; links in it are not followed.
    """
    removed = 0
    with contextlib.suppress(OSError), os.scandir(below) as entries:
        for entry in [each for each in entries if each.name.startswith(PREFIX)]:
            with contextlib.suppress(OSError):
                if _left_over(entry.path):
                    delete(entry.path)
                    removed += 1
    return removed


def _left_over(folder: str) -> bool:
    """Whether a folder is ours, and its process has ended.

    Raises:
        OSError: it is no folder that we may look into.
    """
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return False
    inside = os.open(folder, OPEN)
    try:
        owner = os.open(OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    except FileNotFoundError:
        return time.time() - found.st_mtime > UNFINISHED_SECONDS
    finally:
        os.close(inside)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(owner)
