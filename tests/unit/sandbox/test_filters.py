"""System calls that outlive a program, or look into others, are refused to it."""

import os

import pytest

from dllmzoo.sandbox import Suite
from dllmzoo.sandbox.processes import filters

X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")


def refused(sandbox, *calls):
    """Which of these system calls fail because they are not permitted."""
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ndef f(*call):\n"
        "    return libc.syscall(*call) == -1 and ctypes.get_errno()"
    )
    test = f"raise ValueError([f(*call) for call in {calls}])"
    [[verdict]] = sandbox.run([(code, Suite((test,)))])
    return verdict.detail


@X86
def test_shared_memory_keys_and_traces_are_refused(sandbox):
    calls = (29, 0, 4096, 0o1600), (250, 0, -3, 1), (101, 0, 0, 0), (319, b"x", 0), (298, 0, 0, -1)
    assert refused(sandbox, *calls) == "ValueError: [1, 1, 1, 1, 1]"


@X86
def test_calls_that_are_numbered_otherwise_do_not_pass_it(sandbox):
    assert refused(sandbox, (filters.X32 | 39,)) == "ValueError: [1]", "x32: getpid"
    assert refused(sandbox, (435, 0, 0)) == "ValueError: [38]", "clone3 is said to be unknown"
    assert refused(sandbox, (39,)) == "ValueError: [False]", "getpid itself is allowed"


def test_an_unknown_machine_has_no_filter(monkeypatch):
    monkeypatch.setattr(filters.os, "uname", lambda: os.uname_result(("", "", "", "", "mips")))
    assert filters.compiled() == b""


@pytest.mark.parametrize("machine", filters.REFUSED)
def test_each_number_is_compared_once_and_the_rest_is_allowed(monkeypatch, machine):
    monkeypatch.setattr(filters.os, "uname", lambda: os.uname_result(("", "", "", "", machine)))
    lines = filters.compiled()
    assert len(lines) == 8 * (8 + 2 * len(filters.REFUSED[machine]) + 1)
    assert lines[-4:] == filters.ALLOW.to_bytes(4, "little")
    assert len(set(filters.REFUSED[machine])) == len(filters.REFUSED[machine])
