"""What number a short text states."""

import time
from fractions import Fraction

import pytest

from dllmzoo.tasks._numbers import last_number, read_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,000", 1000), ("$70,000", 70000), (r"\$70{,}000", 70000), ("9{,}500", 9500),
        (r"9\,500", 9500), (r"1,\!000", 1000), ("1\u202f000", 1000), ("1,234,567.5", "2469135/2"),
        ("72.0", 72), ("72.", 72), ("007", 7), (".5", "1/2"), ("0.75", "3/4"),
        ("72 clips, altogether.", 72), (r"\text{72 clips}", 72), ("The total is 72.", 72),
        ("5 first-class seats", 5), (r"5\text{ cm}^2", 5), (r"5 \text{dollars}", 5),
        ("$5.00 per hour", 5), ("\u20ac5", 5), ("5\u00b0", 5), (r"5^\circ", 5),
        ("-3", -3), ("\u22123", -3), ("- 3", -3), ("+3", 3), ("-$5", -5), ("$-5", -5),
        (r"\frac{3}{4}", "3/4"), (r"\dfrac{3}{4}", "3/4"), (r"\tfrac34", "3/4"), ("3/4", "3/4"),
        (r"-\frac{1}{2}", "-1/2"), (r"\frac{-1}{2}", "-1/2"), ("-1/2", "-1/2"), ("1/-2", "-1/2"),
        (r"\frac{1,000}{2}", 500), (r"3\frac{1}{2}", "7/2"), (r"{\frac{1}{2}}", "1/2"),
        (r"\frac{3}4", "3/4"), (r"\frac3{4}", "3/4"), ("3/4 cup", "3/4"),
        ("(72)", 72), (r"\left(5\right)", 5), ("{5}", 5), ("$5$", 5), (r"\(5\)", 5), (r"\[5\]", 5),
        ("x=5", 5), ("k = -5", -5), ("total = 5", 5), ("#5", 5),
        ("50%", 50), (r"50\%", 50), ("50 percent", 50),
    ],
)  # fmt: skip
def test_a_stated_number_is_read(text, value):
    assert read_number(text) == Fraction(value)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "...", "?", "1/0", r"\frac{1}{0}", "1,00", "12,3456", "1,0000", "3 4", "1 000",
        r"1\,00", "1.2.3", "1/2/3", "3,4", "12:30", "(3, 4)", "72 or 73", "1e3", "3x", "x3", "5 x",
        "x - 3", "x-3", "5-3", "5 + 3", "2^3", "5!", r"\sqrt{4}", r"2\pi", r"\boxed{5", "f(5)",
        "5th", "--3", "a.5", "5\u00b2", "\u0663", "=", "-", "a" * 2000 + "5", "1" * 301,
    ],
)  # fmt: skip
def test_what_is_no_single_number_is_none(text):
    assert read_number(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "minus 5", "negative 5", "5 million", r"5\text{ million}", "5 hundred", "5 dozen",
        "5 halves", "5 and a half", "5 quarters", "two thirds 5", "twice 5", "double 5",
        "5 squared", "5 cubed",
        "5 times x", "5 plus x", "5 minus", "not 5", "less than 5", "more than 5", "at least 5",
        "5 or more", "over 5", "under 5", "about 5", "approximately 5", "5 pi", "5 \u03c0", "5 i",
        "5 e", "pi 5", "\u03c0 5", "i 5", "one and 5", "5 and one", "5 point five", "5 k",
    ],
)  # fmt: skip
def test_words_that_change_the_value_make_it_no_number(text):
    assert read_number(text) is None


@pytest.mark.parametrize(
    "text",
    ["5 dollars", "5 cm", "5 apples", "5 hours", "I have 5 cents", "5 times", "5 times a week",
     "5 two-liter bottles", "5, i.e. what is left", "each one costs 5", "5 more than Tom"],
)  # fmt: skip
def test_other_words_do_not(text):
    assert read_number(text) == 5


def test_a_percentage_is_a_number_or_a_fraction():
    assert read_number("50%") == read_number(r"50\%", "number") == 50
    assert read_number("50%", "fraction") == read_number(r"50\%.", "fraction") == Fraction(1, 2)
    assert read_number("50", "fraction") == 50


@pytest.mark.parametrize(
    "text",
    [
        "{" * 500 + "5" + "}" * 499,
        "\\frac{" * 160,
        "\\text{" * 160,
        "a " * 499,
        ". " * 499,
        "-" * 999,
    ],
)
def test_no_text_takes_long(text):
    start = time.perf_counter()
    read_number(text)
    assert time.perf_counter() - start < 0.5


def test_the_last_number_of_a_text():
    assert last_number("3 apples and -4.5 pears, 1,000 in all") == "1,000"
    assert last_number("it is \u22127") == "-7"
    assert last_number("x3") is None and last_number("none") is None
