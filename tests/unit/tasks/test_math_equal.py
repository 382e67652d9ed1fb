"""Equal results: spelling, numbers, formulas; and what is never given to the checker."""

import time

import pytest

from dllmzoo.tasks import _math_equal
from dllmzoo.tasks._math_equal import same_result, too_large


class Asked(Exception):
    """The symbolic checker was asked."""


@pytest.fixture
def unasked(monkeypatch):
    def equal(*_):
        raise Asked

    monkeypatch.setattr(_math_equal.CHECKER, "equal", equal)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("5", "5"), ("1/2", r"\frac{1}{2}"), ("0.5", "1/2"), ("1,000", "1000"), ("5.", "5"),
        (r"\$5", "5"), ("x=5", "5"), (r"\text{even}", "even"), ("$(1,2)$", "(1, 2)"),
        (r"\dfrac12", "0.5"), (r"50\%", "50"), (r"5\text{ cm}^2", "5"), ("3.50", "7/2"),
    ],
)  # fmt: skip
def test_strings_and_numbers_need_no_checker(unasked, answer, gold):
    assert same_result(answer, gold)
    assert same_result(gold, answer)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("6", "5"), ("", ""), ("", "5"), ("-3", "3"), ("3 4", "7"), ("3 4", "12"), ("3 4", "34"),
        ("1,00", "100"),
        ("12,3456", "123456"), ("1e3", "1000"), ("3x", "3"), ("1/0", "0"), ("...", "5"), ("?", "5"),
        ("72 or 73", "72"), ("50%", "0.5"), (r"1\,00", "100"), (r"\text{five}", "5"),
        ("99**99**99", "5"), ("9^{9^{9}}", "5"), ("100000!", "5"), ("x^2" + "+1" * 200, "x^2"),
    ],
)  # fmt: skip
def test_some_answers_are_wrong_at_once(unasked, answer, gold):
    start = time.perf_counter()
    assert not same_result(answer, gold)
    assert time.perf_counter() - start < 0.1


@pytest.mark.parametrize(("answer", "gold"), [(r"\sqrt{4}", "2"), ("5+3", "8"), ("x+1", "1+x")])
def test_formulas_go_to_the_checker_unless_it_is_off(unasked, answer, gold):
    with pytest.raises(Asked):
        same_result(answer, gold)
    assert not same_result(answer, gold, "off")


@pytest.mark.parametrize(
    "text",
    ["99**99**99", "99^{99^{99}}", "9^{9^9}", "9^(9^9)", "2^{10^5}", "2^{123456}", "12345!", "5!!",
     "(5!)!", "2^{(3!)!}", "2^{2^{2^{2}}}", "{9}^{{9}^{9}}",
     "(9999^{9999})^{9999}", "(99**99)**9999", r"\left(99^{99}\right)^{\left(9999\right)}",
     "((9^{9})^{99})^{999}"],
)  # fmt: skip
def test_towers_and_factorials_are_too_large(text):
    assert too_large(text)


@pytest.mark.parametrize(
    "text", ["5", "2^{2023}", "2^{2^{3}}", "2^{10^3}", "e^{x^2}", "20!", "x^2", "10^{-3}", "x^",
     "(2^3)^4", "(2^{10})^{20}", "(x^{99})^{999}",
     "^", "(^"],
)  # fmt: skip
def test_ordinary_powers_are_not(text):
    assert not too_large(text)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("100_2", "100_3"), ("100", "100_3"), ("100_{2}", r"100_{3}"), ("(1,2)", r"\{1,2\}"),
     ("[5,5]", "5"), ("(5, 5)", "5"), ("x=5", "y=5"), (r"x=\sqrt{2}", r"y=\sqrt{2}")],
)  # fmt: skip
def test_base_brackets_and_name_are_part_of_a_result(unasked, answer, gold):
    assert not same_result(answer, gold)
    assert not same_result(gold, answer)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("100_{3}", "100_3"), ("$0100_3$", "(100)_3"), ("x=5", "5"), ("(1,2)", "(1, 2)"),
     (r"\left\{1,2\right\}", r"\{1,2\}"), ("(1,000)", "1000"), ("X = 5", "x=5")],
)  # fmt: skip
def test_the_same_base_brackets_and_name_are_equal(unasked, answer, gold):
    assert same_result(answer, gold)
    assert same_result(gold, answer)
