"""For root: users that nobody has, and what they can reach of our files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import socket
from typing import Any

from .isolation import Interpreter, become

FIRST, LAST = 61184, 65519
"""Where systemd puts users that live as long as a service."""
CLONE_NEWNS = 0x20000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18

HELD: list[Any] = []
"""Sockets whose names say that a user is taken; they end with this process."""


def unused_user() -> int:
    """A user id that is in no table, owns no process, and was given to no other worker.

    Raises:
        OSError: none is left.
    """
    owners = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            owners.add(os.stat(f"/proc/{entry}").st_uid)
    with open("/proc/self/uid_map", encoding="ascii") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    for user in range(FIRST, LAST):
        mapped = any(inside <= user < inside + count for inside, _, count in ranges)
        if mapped and user not in owners and not _named(user) and _taken(user):
            return user
    raise OSError(f"no user id from {FIRST} to {LAST} is free to run answers as")


def _named(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def _taken(user: int) -> bool:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0dllmzoo-sandbox-user-{user}")
    except OSError:
        holder.close()
        return False
    HELD.append(holder)
    return True


def reachable(interpreter: Interpreter, user: int, mounts: str) -> Interpreter | None:
    """The interpreter with its folders where a user can reach them; None if that cannot be done.

    Folders below one that is closed to others, as /root is, are mounted elsewhere, in a name space
    that only this process and its children see.

    Args:
        interpreter: ours.
        user: its id.
        mounts: an empty folder.
    """
    closed = [path for path in interpreter.folders if not _can_read(path, user)]
    if not closed:
        return interpreter
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        return None
    folders = dict(interpreter.folders)
    for number, path in enumerate(closed):
        target = os.path.join(mounts, str(number))
        os.mkdir(target)
        if libc.mount(path.encode(), target.encode(), None, MS_BIND | MS_REC, None):
            return None
        if libc.mount(None, target.encode(), None, MS_BIND | MS_REMOUNT | MS_RDONLY, None):
            return None
        folders[path] = target
    return Interpreter(interpreter.executable, folders, interpreter.library)


def _can_read(path: str, user: int) -> bool:
    child = os.fork()
    if child == 0:
        try:
            become(user)
            os._exit(0 if os.access(path, os.R_OK | os.X_OK) else 1)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
