"""d1's and ESPO's released rewards on texts worked out by hand from their rules."""

import pytest

from dllmzoo.tasks import _released

PERFECT = "<reasoning>\nx\n</reasoning>\n<answer>\n72\n</answer>\n"


@pytest.mark.parametrize(
    ("text", "tags", "spg"),
    [
        (PERFECT, 0.5, 0.5 - 0.001 * len("72\n</answer>\n")),
        # no newline at the end: the third tag pays for the whole text, the fourth gets one back
        (PERFECT[:-1], 0.5 - 0.001 * len(PERFECT[:-1]) + 0.001, 0.5 - 0.012 + 0.001),
        (PERFECT + "abc", 0.5 - 0.003 - 0.003, 0.5 - 0.016 - 0.003),
        ("", 0.0, 0.0),
        ("<reasoning>\n<reasoning>\n", 0.0, 0.0),
    ],
)
def test_tags_are_counted_and_characters_paid_for(text, tags, spg):
    assert _released.tag_counts(text) == pytest.approx(tags)
    assert _released.spg_tag_counts(text) == pytest.approx(spg)


def test_a_long_answer_without_a_last_newline_loses_nearly_all():
    # 496 characters, all four tags: 0.5 - 0.496 + 0.001
    text = PERFECT[:-1].replace("x", "x" * (496 - len(PERFECT) + 2))
    assert len(text) == 496
    assert _released.tag_counts(text) == pytest.approx(0.005)


def test_formats_want_one_line_bodies():
    assert _released.strict_format(PERFECT) == 0.5
    assert _released.strict_format(PERFECT[:-1]) == 0.0
    assert _released.strict_format(PERFECT.replace("x", "x\ny")) == 0.0
    assert _released.soft_format("<reasoning>x</reasoning> <answer>72</answer> more") == 0.5
    assert _released.soft_format(PERFECT) == 0.0


def test_correctness_compares_strings():
    assert _released.correctness(PERFECT, "72") == 2.0
    assert _released.correctness("72", "72") == 2.0  # without a tag the whole text is the answer
    assert _released.correctness("<answer>1,000</answer>", "1000") == 0.0
    assert _released.all_digits(PERFECT) == 0.5
    assert _released.all_digits("<answer>-3</answer>") == 0.0


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("The answer is 42.", True),
        ("The answer is 42. So", False),  # the point is taken into the number
        ("The answer is 42 now", True), ("#### 42", True), ("so 41, 42", True), ("none", False),
        ("The answer is 41, #### 42", False),
    ],
)  # fmt: skip
def test_espo_takes_the_phrase_then_the_hashes_then_the_last_integer(text, right):
    assert _released.espo_correctness(text, "42") == float(right)


@pytest.mark.parametrize(
    ("text", "gold", "score"),
    [
        (r"\boxed{5}", r"so \boxed{5}.", 2.0), (r"\boxed{1/2}", r"\boxed{\frac{1}{2}}", 2.0),
        (r"\boxed{1,000}", r"\boxed{1000}", 0.0), ("5", r"\boxed{5}", 2.0),
        (r"\boxed 5$", r"\boxed{5}", 2.0), (r"\boxed{5", r"\boxed{5}", 0.0),
        (r"\fbox{5}", r"\boxed{5}", 0.0), (r"\boxed{\frac}", r"\boxed{\frac}", 2.0),
    ],
)  # fmt: skip
def test_maths_compares_spellings(text, gold, score):
    assert _released.math_correctness(text, gold) == score


def test_the_box_is_never_seen():
    assert _released.boxed_and_answer_tags(r"<answer>\boxed{5}</answer>") == 0.75
    assert _released.boxed_and_answer_tags(r"\boxed{5}") == 0.25
    assert _released.boxed_and_answer_tags("<answer>\boxed{5}</answer>") == 1.0  # a backspace
    assert _released.boxed_and_answer_tags("\boxed") == 0.5
