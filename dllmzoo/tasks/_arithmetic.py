"""Expressions of Countdown, evaluated exactly by a parser of our own: nothing is executed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

LONGEST = 200
"""Characters above which an expression is refused."""

_TOKEN = re.compile(r"\s*(?:(0|[1-9][0-9]*)|([-+*/()]))")
_FRAC = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_LATEX = (
    (re.compile(r"\\times(?![A-Za-z])|\\cdot(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\\left(?![A-Za-z])|\\right(?![A-Za-z])|\$"), ""),
)
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


@dataclass(frozen=True)
class Expression:
    """What an expression is made of.

    Args:
        numbers: in the order they are written.
        value: exact; None where it divides by 0.
    """

    numbers: tuple[int, ...]
    value: Fraction | None


class _Refused(ValueError):
    """The text is no expression."""


def read_expression(text: str, *, unary_minus: bool = False) -> Expression | None:
    r"""The expression a text consists of, or None if it is anything else.

    Integers without leading zeros, `+ - * /` and parentheses; the LaTeX of these (`\times`,
    `\cdot`, `\div`, `\frac{a}{b}`) is read too. Powers, `//`, decimals, equals signs and more than
    200 characters make it none.

    Args:
        text: the answer.
        unary_minus: whether a minus may stand in front of a number or a parenthesis.

    Example:
        >>> read_expression("2*4-3")
        Expression(numbers=(2, 4, 3), value=Fraction(5, 1))
    """
    if len(text) > LONGEST:
        return None
    try:
        return _Parser(_tokens(_plain(text)), unary_minus).whole()
    except _Refused:
        return None


def _plain(text: str) -> str:
    """LaTeX as plain arithmetic; a fraction in parentheses of its own."""
    for pattern, new in _LATEX:
        text = pattern.sub(new, text)
    while (changed := _FRAC.sub(r"((\1)/(\2))", text)) != text:
        text = changed
    return text.strip()


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise _Refused
        if token[1] and found and found[-1].isdigit():
            raise _Refused  # two numbers in a row: a leading zero, or a blank between
        found.append(token[1] or token[2])
        position = token.end()
    return found


class _Parser:
    """Precedence climbing over tokens."""

    def __init__(self, tokens: list[str], unary_minus: bool) -> None:
        self.tokens, self.unary_minus = tokens, unary_minus
        self.position = 0
        self.numbers: list[int] = []

    def whole(self) -> Expression:
        value = self.expression(1)
        if self.position < len(self.tokens):
            raise _Refused
        return Expression(tuple(self.numbers), value)

    def expression(self, lowest: int) -> Fraction | None:
        left = self.operand()
        while _PRECEDENCE.get(self.peek(), 0) >= lowest:
            sign = self.take()
            left = _combined(left, sign, self.expression(_PRECEDENCE[sign] + 1))
        return left

    def operand(self) -> Fraction | None:
        token = self.take()
        if token.isdigit():
            self.numbers.append(int(token))
            return Fraction(int(token))
        if token == "-" and self.unary_minus and self.peek() not in _PRECEDENCE:
            value = self.operand()
            return None if value is None else -value
        if token == "(":
            value = self.expression(1)
            if self.take() == ")":
                return value
        raise _Refused

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        self.position += 1
        if self.position > len(self.tokens):
            raise _Refused
        return self.tokens[self.position - 1]


def _combined(left: Fraction | None, sign: str, right: Fraction | None) -> Fraction | None:
    """The value of `left sign right`; None if one has none, or for a division by 0."""
    if left is None or right is None or (sign == "/" and right == 0):
        return None
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    return left * right if sign == "*" else left / right
