r"""Results in `\boxed{...}`: nested, unclosed, repeated, without braces."""

import pytest

from dllmzoo.tasks._boxed import boxed, closing, last_boxed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{5}", ["5"]),
        (r"first \boxed{5}, then \boxed{6}", ["5", "6"]),
        (r"\boxed{\frac{1}{\sqrt{4}}}", [r"\frac{1}{\sqrt{4}}"]),
        (r"\boxed{\boxed{5}}", [r"\boxed{5}"]),
        (r"\boxed{5", []),
        (r"\boxed{5 and \boxed{6}", ["6"]),
        (r"\boxed 5", ["5"]),
        (r"so $\boxed 12$.", ["12"]),
        (r"\boxed {7}", ["7"]),
        (r"\fbox{8}", ["8"]),
        (r"\boxedfoo{8}", []),
        (r"\boxed", []),
        (r"\boxed ", []),
        (r"\boxed{}", [""]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"\boxed{\left\{ x \right.}", [r"\left\{ x \right."]),
        (r"\boxed{a \\{b}}", [r"a \\{b}"]),
        ("\\boxed{1\n}", ["1\n"]),
        ("boxed{5}", []),
        ("", []),
    ],
)
def test_braces_are_matched(text, found):
    assert boxed(text) == found
    assert last_boxed(text) == (found[-1] if found else None)


def test_a_brace_that_never_closes_has_no_end():
    assert closing("{a{b}", 0) is None
    assert closing("{a{b}}", 0) == 5
    assert closing("{a{b}}", 2) == 4
