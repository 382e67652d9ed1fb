r"""Results that a text puts into `\boxed{...}`, found by matching braces."""

from __future__ import annotations

import re

_OPENING = re.compile(r"\\f?box(?:ed)?(?![A-Za-z])\s*")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BARE = re.compile(r"[^\s$]+")


def boxed(text: str) -> list[str]:
    r"""What stands in each `\boxed{...}` or `\boxed ...` of the text, in order.

    A box whose braces do not close is none. Of a box inside a box only the outer one counts.

    Example:
        >>> boxed(r"\boxed{1} and \boxed{\frac{2}{3}}")
        ['1', '\\frac{2}{3}']
    """
    found, position = [], 0
    while opening := _OPENING.search(text, position):
        position = opening.end()
        if text.startswith("{", position):
            if (end := closing(text, position)) is not None:
                found.append(text[position + 1 : end])
                position = end + 1
        elif (bare := _BARE.match(text, position)) and opening[0][-1].isspace():
            found.append(bare[0])
            position = bare.end()
    return found


def last_boxed(text: str) -> str | None:
    """The last boxed result; None where there is none."""
    found = boxed(text)
    return found[-1] if found else None


def closing(text: str, start: int) -> int | None:
    r"""Where the brace that opens at `start` is closed; `\{` and `\}` are signs, not braces."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0 and brace[0] == "}":
            return brace.start()
    return None
