"""Expressions of Countdown."""

import time
from fractions import Fraction

import pytest

from dllmzoo.tasks._arithmetic import Expression, read_expression


@pytest.mark.parametrize(
    ("text", "numbers", "value"),
    [
        ("2*4-3", (2, 4, 3), 5), ("2+3*4", (2, 3, 4), 14), ("(2+3)*4", (2, 3, 4), 20),
        ("10-3-2", (10, 3, 2), 5), ("8/4/2", (8, 4, 2), 1), ("1/3*3", (1, 3, 3), 1),
        ("6/(1-3/4)", (6, 1, 3, 4), 24), (" 2 * 4\n- 3 ", (2, 4, 3), 5), ("((5))", (5,), 5),
        (r"2 \times 4 - 3", (2, 4, 3), 5), (r"2\cdot4", (2, 4), 8), (r"8 \div 2", (8, 2), 4),
        (r"\frac{8}{2}+1", (8, 2, 1), 5), (r"\frac{\frac{8}{2}}{4}", (8, 2, 4), 1),
        (r"\left(2+3\right)*4", (2, 3, 4), 20), ("$2+3$", (2, 3), 5), ("0", (0,), 0),
        ("(2*3)*4/0", (2, 3, 4, 0), None), ("1/(2-2)+1", (1, 2, 2, 1), None),
    ],
)  # fmt: skip
def test_values_are_exact(text, numbers, value):
    expected = Expression(numbers, None if value is None else Fraction(value))
    assert read_expression(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "2**4-3", "7//2*3", "2.4*3", "99**99**99", "2*4-3 = 5", "2*4-3=5", "-2+3", "+2",
        "2+-3", "02+3", "2 3", "2(3)", "(2)(3)", "(2+3", "2+3)", "()", "2+", "*2", "a+b", "2^3",
        "2,3", "1e3", "2%3", "\u0662+3", "2\u00d73", "__import__('os')", "1" * 201, r"\sqrt{4}",
        "(" * 200, "2+3;", r"\frac{1}", "0x10", "1_0",
    ],
)  # fmt: skip
def test_anything_else_is_no_expression(text):
    start = time.thread_time()  # of this thread alone: others may keep the machine busy
    assert read_expression(text) is None
    assert time.thread_time() - start < 0.05


def test_a_minus_in_front_is_an_option():
    assert read_expression("-2+3", unary_minus=True) == Expression((2, 3), Fraction(1))
    assert read_expression("-(2+3)*4", unary_minus=True) == Expression((2, 3, 4), Fraction(-20))
    assert read_expression("2*-3", unary_minus=True) == Expression((2, 3), Fraction(-6))
    assert read_expression("--2", unary_minus=True) is None
    assert read_expression("+2", unary_minus=True) is None


def test_deep_parentheses_are_read():
    assert read_expression("(" * 99 + "5" + ")" * 99) == Expression((5,), Fraction(5))
