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
    found, position, ends = [], 0, _closings(text)
    while opening := _OPENING.search(text, position):
        position = opening.end()
        if text.startswith("{", position):
            if (end := ends.get(position)) is not None:
                found.append(text[position + 1 : end])
                position = end + 1
        elif opening[0][-1].isspace() and (bare := _BARE.match(text, position)):
            found.append(bare[0])
            position = bare.end()
    return found


def last_boxed(text: str) -> str | None:
    """The last boxed result; None where there is none."""
    found = boxed(text)
    return found[-1] if found else None


def _closings(text: str) -> dict[int, int]:
    """Where each box with braces opens -> where it closes, in one pass over the text."""
    boxes = {opening.end() for opening in _OPENING.finditer(text)}
    ends: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACE.finditer(text) if boxes else ():
        if brace[0] == "{":
            opened.append(brace.start())
        elif brace[0] == "}" and opened and (start := opened.pop()) in boxes:
            ends[start] = brace.start()
    return ends


def closing(text: str, start: int) -> int | None:
    r"""Where the brace that opens at `start` is closed; `\{` and `\}` are signs, not braces."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0 and brace[0] == "}":
            return brace.start()
    return None
