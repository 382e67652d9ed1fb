"""A filter of system calls that no honest program of a test makes.

What it refuses either outlives the program or is counted by none of its limits (shared memory,
message queues, keys, files in memory), looks into other processes, or reaches parts of the kernel
that have needed many repairs. Everything else passes: limits and name spaces see to that.
"""

from __future__ import annotations

import errno
import os
import struct

REFUSED = {
    "x86_64": (
        29, 30, 31, 64, 68, 101, 155, 161, 165, 166, 240, 248, 249, 250, 272, 298, 300, 304, 308,
        310, 311, 319, 321, 323, 425, 426, 427, 428, 429, 430, 432, 433, 442, 447,
    ),
    "aarch64": (
        39, 40, 41, 51, 97, 117, 180, 186, 190, 194, 195, 196, 217, 218, 219, 241, 262, 265, 268,
        270, 271, 279, 280, 282, 425, 426, 427, 428, 429, 430, 432, 433, 442, 447,
    ),
}  # fmt: skip
"""Numbers of shmget, shmat, shmctl, semget, msgget, ptrace, pivot_root, chroot, mount, umount,
mq_open, add_key, request_key, keyctl, unshare, perf_event_open, fanotify_init, open_by_handle_at,
setns, process_vm_readv, process_vm_writev, memfd_create, bpf, userfaultfd, those of io_uring, of
the newer calls to mount, and memfd_secret."""
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE3 = 435
"""Its flags lie in memory, where no filter sees them; libraries fall back to clone."""
X32 = 0x40000000
"""Calls of another numbering on x86_64 have this bit."""
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE = 0, 4
"""Offsets in what a filter is shown."""
ALLOW, FAIL = 0x7FFF0000, 0x00050000


def compiled() -> bytes:
    """The filter for the kernel's seccomp; empty on machines whose call numbers are not known."""
    machine = os.uname().machine
    if machine not in REFUSED:
        return b""
    lines = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, ARCHITECTURES[machine])]
    lines += [(RETURN, 0, 0, FAIL | errno.EPERM), (LOAD, 0, 0, NUMBER)]
    lines += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, FAIL | errno.EPERM)]
    lines += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, FAIL | errno.ENOSYS)]
    for number in REFUSED[machine]:
        lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, FAIL | errno.EPERM)]
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
