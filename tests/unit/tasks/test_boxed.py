r"""Results in `\boxed{...}`: nested, unclosed, repeated, without braces."""

import pytest

from dllmzoo.tasks._boxed import boxed, closing, last_boxed
from dllmzoo.zoo import TASKS


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


@pytest.mark.parametrize("opening", [r"\boxed{", r"\boxed", r"\boxed "])
def test_many_openings_cost_one_pass(opening):
    text = opening * 200_000
    assert len(boxed(text)) == (100_000 if opening.endswith(" ") else 0)
    assert last_boxed(r"\boxed{" * 200_000 + "5}") == "5"


@pytest.mark.parametrize("name", ["gsm8k", "aime24", "math500"])
def test_rewards_and_metrics_of_many_openings_end(name):
    task, text = TASKS.get(name)(), r"\boxed{" * 200_000
    example = {"question": "q", "answer": "5"}
    assert task.reward([text], [example]).total_X.item() == 0
    assert task.metrics([text], [example])["solved_rate"].hits == [0]
