r"""The truth table of answers, in the main thread, in other threads and in other processes."""

import multiprocessing
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllmzoo.records import VALUE
from dllmzoo.tasks._extract import formula_answer, number_answer
from dllmzoo.tasks._math_equal import same_result
from dllmzoo.tasks._numbers import read_number
from dllmzoo.zoo import TASKS

VALUES = {
    "1,000": 1000, "$70,000": 70000, r"\$70{,}000": 70000, "9{,}500": 9500, r"9\,500": 9500,
    "72.0": 72, "72.": 72, "72 clips, altogether.": 72, r"\text{72 clips}": 72, "-3": -3,
    "\u22123": -3, r"\frac{3}{4}": "3/4", r"\dfrac{3}{4}": "3/4", "3/4": "3/4", "0.75": "3/4",
    r"-\frac{1}{2}": "-1/2", ".5": "1/2", "50%": 50, r"50\%": 50, "x=5": 5,
}  # fmt: skip
NONE = ("", "...", "?", "1/0", "1,00", "12,3456", "3 4", "1e3", "3x", r"\boxed{5")
SYMBOLIC = {r"\frac{1}{\sqrt{4}}": "1/2", r"\sqrt{9}": "3", "x+1": "1+x"}
LIMIT = 30.0
PROJECT = Path(__file__).parents[2]
texts = st.text(st.sampled_from("0123456789+-*/().,= \\boxed{}frac<answer>\n%$x^"), max_size=60)


def wrong_entries(limit: float = LIMIT) -> list[str]:
    """Entries of the table that come out wrong where this is called; none should."""
    wrong = []
    for text, value in VALUES.items():
        number = Fraction(value)
        if read_number(text) != number or not same_result(text, str(number), limit=limit):
            wrong.append(text)
        if not same_result(str(number), text, limit=limit):
            wrong.append(f"{text} (swapped)")
        if same_result(text, str(number + 1), limit=limit):
            wrong.append(f"{text} is not {number + 1}")
    wrong += [text for text in NONE if read_number(text) is not None]
    wrong += [text for text in NONE if same_result(text, "3", limit=limit)]
    wrong += [t for t, v in SYMBOLIC.items() if not same_result(t, v, limit=limit)]
    start = time.perf_counter()
    if same_result("99**99**99", "5", limit=limit) or time.perf_counter() - start > 0.1:
        wrong.append("99**99**99")
    return wrong


def test_the_truth_table_in_the_main_thread():
    assert wrong_entries() == []


def test_the_truth_table_in_a_worker_thread():
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(wrong_entries()))
    thread.start()
    thread.join()
    assert found == [[]]


def test_the_truth_table_in_a_subprocess():
    code = "from tests.property.test_math_answers import wrong_entries; print(wrong_entries())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_truth_table_in_a_daemon_of_multiprocessing():
    with multiprocessing.get_context("spawn").Pool(
        1
    ) as pool:  # its workers are daemons and may start no children of their own
        assert pool.apply(wrong_entries) == []


@pytest.mark.parametrize("value", sorted({str(Fraction(v)) for v in VALUES.values()}))
def test_texts_of_one_value_are_equal_both_ways(value):
    alike = [text for text, each in VALUES.items() if Fraction(each) == Fraction(value)]
    for a in alike:
        for b in alike:
            assert same_result(a, b, "off") and same_result(b, a, "off")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{\frac{1}{\sqrt{4}}}", r"\frac{1}{\sqrt{4}}"), (r"\boxed{1} or \boxed{2}", "2"),
        (r"\boxed{5", None), (r"\boxed 5", "5"),
    ],
)  # fmt: skip
def test_boxes_of_the_table(text, found):
    assert number_answer(text)[0] == formula_answer(text)[0] == found


@given(text=texts)
def test_no_text_makes_a_reader_raise(text):
    number = read_number(text)
    assert number is None or number == read_number(str(number))
    number_answer(text, lenient=True)
    same_result(text, "5", "off")
    if text.strip() and number is not None:
        assert same_result(text, text, "off")


@given(text=texts, answer=texts)
def test_no_answer_makes_a_task_raise(text, answer):
    answered = f"{text}<answer>{answer}</answer>"
    for name, example, options in (
        ("countdown", {"numbers": [2, 3, 4], "target": 5}, {}),
        ("gsm8k", {"question": "q", "answer": "5"}, {"lenient": True}),
        ("aime24", {"question": "q", "answer": "5"}, {}),
        ("math500", {"question": "q", "answer": "5"}, {"symbolic": "off"}),
    ):
        made = TASKS.get(name)
        components = sys.modules[made.__module__].COMPONENTS
        task = made(rewards=dict.fromkeys(components, 1.0), **options)
        found = task.reward([text, answered], [example] * 2)
        assert (found.outcome_XC == VALUE).all() and found.total_X.isfinite().all()
        task.metrics([text, answered], [example] * 2)


@given(numbers=st.lists(st.integers(1, 99), min_size=2, max_size=4), text=texts)
def test_an_expression_is_never_rewarded_unless_it_uses_the_numbers(numbers, text):
    task = TASKS.get("countdown")(prompt_style="compact", rewards={"solved": 1.0})
    found = task.reward([text], [{"numbers": numbers, "target": 24}]).total_X.item()
    read = task.read(text)
    assert found == 0.0 or (read is not None and sorted(read.numbers) == sorted(numbers))
