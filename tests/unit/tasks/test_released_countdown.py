"""d1's Countdown reward, with what it lets pass and without what hangs."""

import time

import pytest

from dllmzoo.tasks._released_countdown import released_score


@pytest.mark.parametrize(
    ("answer", "numbers", "target", "score"),
    [
        ("2*4-3", (2, 3, 4), 5, 1.0), ("2**4-3", (2, 3, 4), 13, 1.0),
        ("7//2*3", (7, 2, 3), 9, 1.0), ("2.4*3", (2, 3, 4), 7.2, 1.0),
        ("2*4-3 = 5", (2, 3, 4), 5, 0.1), ("2+3", (2, 3, 4), 5, 0.1), ("", (2, 3, 4), 5, 0.1),
        ("(2*3)*4/0", (2, 3, 4, 0), 5, 0.1), ("2(3)", (2, 3), 6, 0.1), ("()", (), 6, 0.1),
        ("+2--3", (2, 3), 5, 1.0), ("1/3*3", (1, 3, 3), 1, 1.0), ("02+3", (2, 3), 5, 0.1),
        ("(0-8)**(1/2)", (0, 8, 1, 2), 5, 0.1), ("99**99**99", (99, 99, 99), 5, 0.1),
        ("2**99999", (2, 99999), 5, 0.1), ("...", (), 5, 0.1), ("2+\u0663", (2, 3), 5, 0.1),
    ],
)  # fmt: skip
def test_scores_are_the_released_ones(answer, numbers, target, score):
    start = time.perf_counter()
    assert released_score(f"<answer>{answer}</answer>", numbers, target) == score
    assert time.perf_counter() - start < 0.1


def test_without_a_tag_there_is_nothing():
    assert released_score("2*4-3", (2, 3, 4), 5) == 0.0
    assert released_score("<answer>2*4-3", (2, 3, 4), 5) == 0.0


@pytest.mark.parametrize(
    "answer", ["(" * 1900 + "2" + ")" * 90, "-" * 1900 + "2", "2+" * 2000 + "2"]
)
def test_no_answer_breaks_the_parser(answer):
    assert released_score(f"<answer>{answer}</answer>", (2,), 5) == 0.1
