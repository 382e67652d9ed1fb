"""A kernel that really refuses user namespaces: the error says so, and nothing weaker is tried."""

import ctypes
import os
import subprocess
import sys

import pytest

from dllmzoo.sandbox import missing_bubblewrap

INSIDE = """
import ctypes, sys
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
    sys.exit("no namespace of our own")
print("ready", flush=True)
sys.stdin.readline()
with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
from dllmzoo.sandbox import Sandbox, SandboxError
try:
    Sandbox("bubblewrap", workers=1).start()
except SandboxError as error:
    print(str(error).replace("\\n", " "))
else:
    print("it started")
"""


def namespaces():
    """Why a namespace cannot be had here in which no other may be made; None if it can."""
    if missing := missing_bubblewrap():
        return missing
    if os.getuid() != 0:
        return "only root can give a namespace all user ids"
    child = os.fork()
    if child == 0:
        os._exit(1 if ctypes.CDLL(None).unshare(0x10000000) else 0)
    refused = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "this machine refuses user namespaces already" if refused else None


def test_refused_namespaces_are_told_with_what_to_allow():
    if why := namespaces():
        pytest.skip(why)
    with subprocess.Popen(
        [sys.executable, "-c", INSIDE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{process.pid}/{name}", "w") as file:
                file.write("0 0 65536\n")
        said, _ = process.communicate("\n", timeout=120)
    assert "bubblewrap needs user namespaces, and they are refused here" in said, said
    assert "user.max_user_namespaces" in said and "nothing weaker is tried by itself" in said
