"""Runs programs that a model wrote against tests, where they can do no harm and cannot cheat.

The trainer talks to workers, one for each core. For each program a worker starts two processes,
each in a sandbox of its own: one runs the program, the other its tests. The tests call stand-ins
for the program's functions; arguments and values cross as plain data and are compared where the
tests run. So a program never holds an expected result, and whatever it prints, patches, forges or
ends, all it can do to pass is to return the right values.

Not defended: tables of known arguments; tests that compare a program with itself; arguments that a
program changes; objects of its own classes in tests about classes (`Suite.objects`); processes of
one user without bubblewrap; bugs of the kernel.
"""

from dllmzoo.sandbox.pool import Isolation, Sandbox, shared
from dllmzoo.sandbox.processes.judge import LIBRARY
from dllmzoo.sandbox.suite import Limits, Outcome, Suite, Verdict
from dllmzoo.sandbox.workers import SandboxError, missing_bubblewrap

__all__ = [
    "LIBRARY", "Isolation", "Limits", "Outcome", "Sandbox", "SandboxError", "Suite", "Verdict",
    "missing_bubblewrap", "shared",
]  # fmt: skip
