"""What is run: tests of a program, and what came of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "fail", "error", "timeout"]
"""`fail`: an assertion of the test; `error`: anything else that stopped it."""


@dataclass(frozen=True)
class Suite:
    """Tests that a program is held to.

    Args:
        tests: pieces of Python, run one after the other in one set of global names; each passes
            if it comes to its end.
        setup: Python run once before them: imports, helpers, definitions of test functions.
        names: that the tests take from the program, even where they are names of built-in
            functions; other names are taken from it if nothing else has them.
        objects: whether the tests are about classes of the program; then its objects may say
            themselves what they equal.
    """

    tests: tuple[str, ...]
    setup: str = ""
    names: tuple[str, ...] = ()
    objects: bool = False


@dataclass(frozen=True)
class Verdict:
    """What came of one test.

    Args:
        outcome: see `Outcome`.
        detail: the exception or the reason; empty where the test passed.
    """

    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True)
class Limits:
    """What a program may use; all are hard.

    Args:
        seconds: wall time of one test, and of loading the program, > 0.
        memory_mb: address space of one process, MiB.
        output_mb: what it may send back for one test, MiB.
        file_mb: its longest file, and all of its temporary folder, MiB.
        processes: processes and threads at once; a pool of threads takes 32 if nothing is said.
    """

    seconds: float = 5.0
    memory_mb: int = 1024
    output_mb: int = 16
    file_mb: int = 16
    processes: int = 64
