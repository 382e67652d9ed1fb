"""What a process may use, set by itself before it runs anything that is not ours."""

from __future__ import annotations

import os
import resource
import sys

TYPE_CHECKING = False  # the import of `typing` would cost every program 10 ms
if TYPE_CHECKING:
    from typing import Any

PR_SET_SECCOMP, FILTERED = 22, 2
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE = 1, 38, 36, 4
OPEN_FILES, KILL = 64, 9


def settle(limits: dict[str, Any], parent: int | None) -> None:
    """Set hard limits on this process and its children.

    Args:
        limits: `memory`, `file`, `cpu`, `processes`: bytes of address space and of a file, seconds,
            a number. `library`: folders of installed packages. `folder`: to work in.
        parent: process to end with; None where a sandbox sees to that, and to the environment.
    """
    hard = {
        resource.RLIMIT_AS: limits["memory"],
        resource.RLIMIT_FSIZE: limits["file"],
        resource.RLIMIT_CPU: limits["cpu"],
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in hard.items():
        _, before = resource.getrlimit(what)
        most = most if before == resource.RLIM_INFINITY else min(most, before)
        resource.setrlimit(what, (most, most))
    sys.path.extend(limits["library"])
    if parent is not None:
        control(PR_SET_NO_NEW_PRIVS, 1)
        filter_calls()
        control(PR_SET_PDEATHSIG, KILL)
        if os.getppid() != parent:  # it ended before
            os._exit(1)
        os.chdir(limits["folder"])
        os.environ.update(PATH="/usr/bin:/bin", HOME=limits["folder"], TMPDIR=limits["folder"])


def control(option: int, value: int) -> None:
    """The system call `prctl`; what the kernel does not know is left.

    Processes that have no use for it do not pay for `ctypes`.
    """
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def filter_calls() -> None:
    """Refuse the system calls of `filters`, to this process and its children, for good.

    Raises:
        OSError: the kernel knows no filters.
    """
    import ctypes

    from .filters import compiled

    lines = compiled()
    if not lines:
        return

    class Lines(ctypes.Structure):
        _fields_ = [("number", ctypes.c_ushort), ("first", ctypes.c_void_p)]

    kept = ctypes.create_string_buffer(lines, len(lines))
    what = Lines(len(lines) // 8, ctypes.cast(kept, ctypes.c_void_p).value)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, FILTERED, ctypes.byref(what), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls can be set")
