"""The Countdown reward that d1 released: what Python's `eval` makes of an answer, within bounds."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

LONGEST = 2000
"""Characters above which an expression counts as one that fails."""
LARGEST_POWER = 20_000
"""Bits a power may have; larger ones, which would hang, count as failures."""

_ALLOWED = re.compile(r"^[\d+\-*/().\s]+$")
_TAG = re.compile("<answer>(.*?)</answer>", re.DOTALL)
_FAILURES = (ArithmeticError, SyntaxError, TypeError, ValueError, RecursionError, MemoryError)
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def released_score(text: str, numbers: Sequence[int], target: int) -> float:
    """0 without an answer tag; 1 if the number is reached; else 0.1.

    As released, powers, `//`, decimals and digits that only look like the given numbers pass.
    An expression that Python could not finish is cut off and gets 0.1.
    """
    found = _TAG.findall(text)
    if not found:
        return 0.0
    written = found[-1].strip()
    used = re.findall(r"\d+", written)
    if len(written) > LONGEST or sorted(map(int, used)) != sorted(numbers):
        return 0.1
    try:
        if _ALLOWED.match(written) and abs(_value(_parsed(written)) - target) < 1e-5:
            return 1.0
    except _FAILURES:
        pass
    return 0.1


def _parsed(written: str) -> ast.expr:
    return ast.parse(written, mode="eval").body


def _value(node: ast.expr) -> Any:
    """What Python makes of an expression without names; powers are bounded first."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        return _BINARY[type(node.op)](left, right)
    raise TypeError(f"{type(node).__name__} has no value here")


def _power(base: Any, exponent: Any) -> Any:
    """A power, if it is not too large to be computed at once."""
    whole = isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1
    if whole and base.bit_length() * abs(exponent) > LARGEST_POWER:
        raise OverflowError("the power is too large")
    return base**exponent
