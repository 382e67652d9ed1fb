"""Folders that programs wrote into are deleted, however deep they are nested."""

from __future__ import annotations

import contextlib
import os
import stat

OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete(folder: str) -> None:
    """Delete a folder with all that is in it; what cannot be deleted stays, and is no error.

    Folders inside are first moved up to it, so nesting costs neither calls of functions nor open
    files nor long paths. Links are deleted, never followed. The programs have ended before.

    Args:
        folder: its path.
    """
    with contextlib.suppress(OSError):
        _open_up(folder)
        top = os.open(folder, OPEN)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(folder)


def _empty(top: int) -> None:
    waiting = [name for name in os.listdir(top) if not _unlinked(name, top)]
    taken, number = set(waiting), 0
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(OSError):
            _open_up(folder, top)
            fd = os.open(folder, OPEN, dir_fd=top)
            try:
                for name in os.listdir(fd):
                    if _unlinked(name, fd):
                        continue
                    while (moved := f"moved-{number}") in taken:
                        number += 1
                    number += 1
                    with contextlib.suppress(OSError):
                        _open_up(name, fd)  # a folder that cannot be written cannot be moved
                        os.rename(name, moved, src_dir_fd=fd, dst_dir_fd=top)
                        waiting.append(moved)
            finally:
                os.close(fd)
            os.rmdir(folder, dir_fd=top)


def _unlinked(name: str, fd: int) -> bool:
    """Delete what is no folder; whether it is none."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
            return False
        os.unlink(name, dir_fd=fd)
    return True


def _open_up(name: str, fd: int | None = None) -> None:
    """Let a folder of ours be read and emptied, whatever rights its maker left on it."""
    found = os.lstat(name, dir_fd=fd)
    if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 != 0o700:
        with contextlib.suppress(PermissionError):
            os.chmod(name, 0o700, dir_fd=fd)
