"""Where the answer of a text is found, and how."""

import pytest

from dllmzoo.tasks._extract import (
    boxed_and_answer_tags,
    formula_answer,
    number_answer,
    well_formed,
)

TAGGED = "<reasoning>\nx\n</reasoning>\n<answer>\n72\n</answer>\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{1} <answer>so \boxed{2} #### 3</answer> #### 4", ("2", "tag_boxed")),
        (r"\boxed{1} <answer> 2 </answer> #### 4", ("2", "tag")),
        ("<answer>1</answer> no, <answer>2</answer>", ("2", "tag")),
        (r"\boxed{1} then \boxed{2} #### 3", ("2", "boxed")),
        ("#### 3\n#### 4\nthe answer is 5", ("4", "hash")),
        ("The answer is 5. The Answer is: 6.5. Good.", ("6.5", "phrase")),
        ("answer is 7\n8", ("7", "phrase")),
        ("9 of 10", (None, "nothing")),
        ("", (None, "nothing")),
        ("<answer>open", (None, "nothing")),
        (r"<answer>\boxed{5</answer>", (r"\boxed{5", "tag")),
        ("<answer></answer> #### 4", ("", "tag")),
    ],
)
def test_the_first_way_that_is_there_is_taken(text, found):
    assert number_answer(text) == found


def test_first_box_and_lenient_reading_are_options():
    assert number_answer(r"\boxed{1} \boxed{2}", "first") == ("1", "boxed")
    assert number_answer("9 of 10", lenient=True) == ("10", "last_number")
    assert number_answer("none", lenient=True) == (None, "nothing")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{1} <answer>\boxed{2}</answer> \boxed{3}", ("3", "boxed")),
        (r"<answer> x+1 </answer>", ("x+1", "tag")),
        ("#### 4", (None, "nothing")),
        (r"\boxed{5", (None, "nothing")),
    ],
)
def test_a_formula_is_the_last_box_or_the_last_tag(text, found):
    assert formula_answer(text) == found


def test_a_formula_may_be_the_first_box():
    assert formula_answer(r"\boxed{1} \boxed{2}", "first") == ("1", "boxed")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (TAGGED, True),
        ("<reasoning>one\ntwo</reasoning><answer>72</answer>", True),
        (TAGGED + "more", False),
        ("more" + TAGGED, False),
        (TAGGED + TAGGED, False),
        ("<answer>72</answer><reasoning>x</reasoning>", False),
        ("<answer>72</answer>", False),
        ("", False),
    ],
)
def test_a_well_formed_text_is_two_blocks_and_nothing_else(text, good):
    assert well_formed(text) is good


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (r"<answer>\boxed{5}</answer>", 1.0),
        (r"<answer>5</answer> \boxed{5}", 0.75),
        (r"\boxed{5}", 0.5),
        ("5", 0.25),
        (r"<answer>\boxed{5}", 0.5),
    ],
)
def test_the_form_of_d1_as_it_is_meant(text, score):
    assert boxed_and_answer_tags(text) == score
