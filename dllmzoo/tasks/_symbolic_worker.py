"""The worker process of `_symbolic.py`: compares results with math-verify, one a line.

It is run by its path, imports nothing of dllmzoo, and is killed from outside when it takes too
long. A request is `{"answer": ..., "gold": ..., "limit": seconds}`; a reply is `{"equal": true}`,
`{"equal": false}`, `{"unread": reason}` or `{"memory": true}`. Its first line is `{"ready": true}`
or `{"missing": reason}`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

MEMORY_BYTES = 2 * 1024**3
SPARE_SECONDS = 5
"""How much longer than its limit a comparison may live if the parent is not there to end it."""


def main() -> None:
    """Answer requests until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing else may write between the replies
    logging.disable(logging.CRITICAL)

    def reply(**content: Any) -> None:
        replies.write(json.dumps(content) + "\n")
        replies.flush()

    try:
        equal = _comparison()
    except Exception as error:  # an installed library may be broken in any way
        reply(missing=f"{type(error).__name__}: {error}")
        return
    _limit_memory()
    reply(ready=True)
    for line in sys.stdin:
        request = json.loads(line)
        _end_after(float(request["limit"]) + SPARE_SECONDS)
        try:
            reply(equal=bool(equal(request["answer"], request["gold"])))
        except MemoryError:
            reply(memory=True)
        except Exception as error:
            reply(unread=f"{type(error).__name__}: {error}"[:200])
        _end_after(0)


def _comparison() -> Any:
    """A function that says whether two results are equal."""
    from math_verify import parse, verify
    from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig

    targets = (LatexExtractionConfig(), ExprExtractionConfig())

    def read(text: str) -> Any:
        options: dict[str, Any] = {"fallback_mode": "no_fallback", "raise_on_error": True}
        wanted = f"\\boxed{{{text}}}"
        found = parse(wanted, extraction_config=targets, parsing_timeout=None, **options)  # type: ignore[arg-type]
        if not found:
            raise ValueError(f"no result in {text!r}")
        return found

    def equal(answer: str, gold: str) -> bool:
        return verify(read(gold), read(answer), timeout_seconds=None)

    read("1")  # the first reading compiles the patterns
    return equal


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _end_after(seconds: float) -> None:
    """Have the system end this process then, should its parent not be there to; 0 = never."""
    import signal

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
