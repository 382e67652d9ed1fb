"""One spelling of a LaTeX result."""

import pytest

from dllmzoo.tasks._math_form import normal_form, released_form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("a\nb", "ab"), (r"1\!2", "12"), (r"\tfrac{1}{2}", r"\frac{1}{2}"),
        (r"\dfrac{1}{2}", r"\frac{1}{2}"), (r"\left(1\right)", "(1)"), (r"5^\circ", "5"),
        (r"5^{\circ}", "5"), (r"\$5", "5"), (r"5\text{ cm}", "5"), (r"50\%", "50"),
        (".5", r"\frac{1}{2}"), (r"\frac{.5}{2}", r"\frac{0.5}{2}"), ("x = 5", "5"),
        ("abc = 5", "abc=5"), (r"\sqrt3", r"\sqrt{3}"), (r"\sqrt{3}", r"\sqrt{3}"),
        (r"\frac12", r"\frac{1}{2}"), (r"\frac1{72}", r"\frac{1}{72}"), ("1/2", r"\frac{1}{2}"),
        ("01/2", "01/2"), ("1/2/3", "1/2/3"), ("0.5", r"\frac{1}{2}"), ("0.25", "0.25"),
        ("x = y = 5", "x=y=5"), ("-3/4", r"\frac{-3}{4}"), ("", ""), (r"\frac1", r"\frac1"),
    ],
)  # fmt: skip
def test_the_list_of_rewritings(text, form):
    assert released_form(text) == form


@pytest.mark.parametrize("text", [r"1\text{ a}\text{ b}", r"\sqrt", r"1\frac", "a/b"])
def test_what_the_released_code_gives_up_on(text):
    with pytest.raises(ValueError):
        released_form(text)
    assert normal_form(text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("$5$", "5"), (r"\(5\)", "5"), (r"\text{even}", "even"), (r"\mathrm{B}", "B"), ("5.", "5"),
        (r"5\,\text{ cm}", "5"), (r"\text{ even}", "even"), (r"1\;+\;x", "1+x"), ("a/b", "a/b"),
        (r"5\text{ a}\text{ b}", "5"), ("", ""), (" ", ""), (r"x=\frac{1}{2}", r"\frac{1}{2}"),
    ],
)  # fmt: skip
def test_the_normal_form_takes_more_off(text, form):
    assert normal_form(text) == form
