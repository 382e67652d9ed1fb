"""Whether two results of a maths problem are the same: as strings, as numbers, as formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from dllmzoo.tasks._boxed import closing
from dllmzoo.tasks._math_form import normal_form
from dllmzoo.tasks._numbers import read_number
from dllmzoo.tasks._symbolic import CHECKER

Symbolic = Literal["off", "math_verify"]

LONGEST = 300
"""Characters above which no result is compared as a formula."""
MOST_DIGITS = 4
"""Digits an exponent or a factorial may have, lest a number of millions of digits be built."""

_FORMULA = re.compile(r"\\[A-Za-z{]|[\^*+(\[\u221a]|[0-9]\s*-\s*[0-9]")
_POWER = re.compile(r"\^|\*\*")
_PLAIN_OPERAND = re.compile(r"[+-]?[0-9.,]+|\\[A-Za-z]+|.?", re.DOTALL)
_SMALL_POWER = re.compile(r"[({]?([0-9]{1,2})(?:\^|\*\*)[({]?([0-9]{1,2})[)}]?[)}]?")
_POWER_OF_POWER = re.compile(r"(?=[0-9)}](?:\^|\*\*)[({]*([0-9]+)[)}]+(?:\^|\*\*)[({]*([0-9]+))")
_FACTORIAL = re.compile(r"(?:[0-9]{4,}|[)}!])\s*!")
_MACRO = re.compile(r"\\[A-Za-z]+|\\.")
_NOTATION = re.compile(r"\\(?:left|right)(?![A-Za-z])|\\[()\[\],;:! ]|\$|\s")
_BASED = re.compile(r"(?:[A-Za-z]=)?\(?([0-9A-F]*[0-9][0-9A-F]*)\)?_(\{.+\}|[0-9]+)")
_ORDERED = re.compile(r"[(\[][^()\[\]]*,[^()\[\]]*[)\]]")
_NAMED = re.compile(r"([A-Za-z])=(.*)")
_SPACING = re.compile(r"\\[,;:!$% ]|\{,\}|\\(?:text|mathrm|mbox)(?![A-Za-z])")


def same_result(
    answer: str, gold: str, symbolic: Symbolic = "math_verify", limit: float = 2.0
) -> bool:
    r"""Whether an answer is the right result.

    If the right result is a number, another number is compared exactly; if not, equal spelling
    after `normal_form` is enough. What is left goes to math-verify. A number against words, two
    numbers or bad digits is wrong at once, and so is a tower of powers too large to be computed.
    Different are also `100_2`, `100_3` and `100`; `(1,2)` and `\{1,2\}`; `[5,5]` and `5`; `x=5`
    and `y=5`. Not looked at are units, a name on one side only, and the order of a bare list.

    Args:
        answer: what the text states, without its box; empty is never right.
        gold: the right result.
        symbolic: `off` stops after strings and numbers.
        limit: seconds that math-verify may take.

    Raises:
        TimeoutError: math-verify took longer.
        CheckerError: it is not installed, or does not start.
    """
    if not answer.strip() or not gold.strip():
        return False
    if (alike := _alike_notation(answer, gold)) is not None:
        return alike
    number, right = read_number(answer), read_number(gold)
    if number is not None and right is not None:
        return number == right
    if right is None and normal_form(answer) == normal_form(gold) != "":
        return True
    if symbolic == "off" or not _comparable(answer, right is not None):
        return False
    return CHECKER.equal(answer.strip(), gold.strip(), limit)


def _alike_notation(answer: str, gold: str) -> bool | None:
    """Whether two results agree in base, brackets and name; None if that does not settle it."""
    pair = [_NOTATION.sub("", text).removesuffix(".") for text in (answer, gold)]
    based = [_BASED.fullmatch(text) for text in pair]
    if any(based):
        stated = [(b[1].lstrip("0"), b[2].strip("{}")) for b in based if b is not None]
        return len(stated) == 2 and stated[0] == stated[1]
    named = [_NAMED.fullmatch(text) for text in pair]
    if named[0] and named[1] and named[0][1].casefold() != named[1][1].casefold():
        values = [_MACRO.sub("", each[2]) for each in named if each]
        if not any(map(str.isalpha, "".join(values))):
            return False
    for one, other in (pair, pair[::-1]):
        if _ORDERED.fullmatch(one) and read_number(one) is None:
            is_set = other.startswith("\\{") and other.endswith("\\}")
            if is_set or read_number(other) is not None:
                return False
    return None


def _comparable(answer: str, to_number: bool) -> bool:
    """Whether a formula can be in the text, and one that is cheap enough to be built."""
    if len(answer) > LONGEST or too_large(answer):
        return False
    return not to_number or _FORMULA.search(_SPACING.sub(" ", answer)) is not None


def too_large(text: str) -> bool:
    """Whether a power or factorial of plain numbers is too large to be computed at once.

    Example:
        >>> too_large("99**99**99"), too_large("2^{2023}"), too_large("e^{x^2}")
        (True, False, False)
    """
    dense = _NOTATION.sub("", text)
    pairs = _POWER_OF_POWER.findall(dense)
    if any(int(one) * int(other) >= 10**MOST_DIGITS for one, other in pairs):
        return True
    if _FACTORIAL.search(text):
        return True
    return any(_large(exponent) for exponent in _exponents(text))


def _exponents(text: str) -> Iterator[str]:
    """What stands above each power sign, with the powers it is itself raised to."""
    dense = "".join(text.split())
    for sign in _POWER.finditer(dense):
        start = end = sign.end()
        while True:
            end = _operand_end(dense, end)
            following = _POWER.match(dense, end)
            if following is None:
                break
            end = following.end()
        yield dense[start:end]


def _operand_end(text: str, start: int) -> int:
    """Where a number, a macro, one sign, or a pair of brackets that begins at `start` ends."""
    if text.startswith("{", start):
        end = closing(text, start)
        return len(text) if end is None else end + 1
    if text.startswith("(", start):
        depth = 0
        for place in range(start, len(text)):
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            if depth == 0:
                return place + 1
        return len(text)
    plain = _PLAIN_OPERAND.match(text, start)
    return plain.end() if plain else start


def _large(exponent: str) -> bool:
    numbers = re.findall(r"[0-9]+", exponent)
    if any(len(number) > MOST_DIGITS for number in numbers):
        return True
    if not _POWER.search(exponent) and "!" not in exponent:
        return False
    if any(map(str.isalpha, _MACRO.sub("", exponent))):
        return False  # a formula, not a number: nothing is computed
    if small := _SMALL_POWER.fullmatch(exponent.strip("{}()")):
        return int(small[1]) ** int(small[2]) >= 10**MOST_DIGITS
    return True
