"""The MATH task: data, rewards, timeouts counted apart."""

import logging

import pytest
from pydantic import ValidationError

from dllmzoo.errors import TaskError
from dllmzoo.records import TIMEOUT, VALUE
from dllmzoo.tasks import _symbolic, math500
from dllmzoo.zoo import TASKS
from tests.unit.tasks.question_files import KEY, jsonl, question_task
from tests.unit.tasks.question_files import ROWS as EVERY

Math500 = TASKS.get("math500")
ROWS = EVERY["math500"]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def task(**options):
    return question_task("math500", **options)


def graded(text, gold="5", name="correct", **options):
    example = {"question": "q", "solution": f"\\boxed{{{gold}}}", "answer": gold}
    options = {"time_limit": 20.0, **options}
    return Math500(rewards={name: 1.0}, **options).reward([text], [example]).total_X.item()


@pytest.mark.parametrize(
    ("text", "gold", "right"),
    [
        (r"The answer is \boxed{5}", "5", True), (r"\boxed{1/2}", r"\frac{1}{2}", True),
        (r"\boxed{1,000}", "1000", True), (r"\boxed{6}", "5", False),
        (r"<answer>\boxed{5}</answer>", "5", True), ("<answer>5</answer>", "5", True),
        (r"\boxed{6} no \boxed{5}", "5", True), (r"\boxed{x + 1}", "1 + x", True),
        (r"\boxed{\sqrt{12}}", r"2\sqrt{3}", True), (r"\boxed{\text{even}}", "even", True),
        (r"\boxed{(2, 1)}", "(1, 2)", False), ("5", "5", False), (r"\boxed{5", "5", False),
        (r"\boxed{}", "5", False), (r"\boxed{50\%}", "50", True),
    ],
)  # fmt: skip
def test_results_are_compared_as_strings_numbers_and_formulas(text, gold, right):
    assert graded(text, gold) == float(right)


def test_without_formulas_only_spelling_and_numbers_count():
    assert graded(r"\boxed{x+1}", "1+x", symbolic="off") == 0.0
    assert graded(r"\boxed{0.5}", r"\frac12", symbolic="off") == 1.0


def test_other_components():
    assert graded(r"\boxed{5}", name="signed") == 1.0 and graded("", name="signed") == -1.0
    assert graded(r"<answer>\boxed{5}</answer>", name="boxed_and_answer_tags") == 1.0
    released = "boxed_and_answer_tags_released"
    assert graded(r"<answer>\boxed{5}</answer>", name=released) == 0.75
    assert graded(r"\boxed{1,000}", "1000", "correctness_released") == 0.0
    assert graded(r"\boxed{1/2}", r"\frac{1}{2}", "correctness_released") == 2.0
    example = {"question": "q", "answer": "5"}
    own = Math500(rewards={"correctness_released": 1.0})
    assert own.reward([r"\boxed{5}"], [example]).total_X.item() == 2.0
    assert graded(r"\boxed{5} \boxed{6}", box="first") == 1.0


def test_timeouts_are_counted_apart_from_wrong_answers(monkeypatch):
    def equal(answer, gold, limit):
        raise TimeoutError(f"longer than {limit}")

    monkeypatch.setattr(_symbolic.CHECKER, "equal", equal)
    examples = [{"question": "q", "answer": "5"}] * 3
    texts = [r"\boxed{\sqrt{25}}", r"\boxed{6}", r"\boxed{5}"]
    own = Math500(rewards={"correct": 1.0, "signed": 1.0})
    found = own.reward(texts, examples)
    assert found.outcome_XC.tolist() == [[TIMEOUT] * 2, [VALUE] * 2, [VALUE] * 2]
    assert found.total_X.tolist() == [0.0, -1.0, 2.0]
    metrics = own.metrics(texts, examples)
    assert metrics["solved_rate"].hits == [0, 0, 1]
    assert metrics["timeout_rate"].hits == [1, 0, 0]
    assert metrics["parse_rate"].hits == [1, 1, 1]
    assert metrics["extracted_by/boxed"].value == 1.0


def test_a_missing_library_is_told_before_training(monkeypatch):
    monkeypatch.setattr(math500, "missing_library", lambda: "pip install dllmzoo[math]")
    assert task().check() == ["pip install dllmzoo[math]"]
    assert task(symbolic="off").check() == []


def test_a_missing_library_stops_whatever_the_policy(monkeypatch):
    def equal(*_):
        raise _symbolic.CheckerError("pip install dllmzoo[math]")

    monkeypatch.setattr(_symbolic.CHECKER, "equal", equal)
    with pytest.raises(TaskError, match="dllmzoo"):
        graded(r"\boxed{\sqrt{25}}", on_error="zero")


# --- data


def test_the_right_answer_is_the_last_box_of_the_solution():
    own = task()
    [example] = own.test(1)
    assert (example["question"], example["answer"]) == ("What is $0 + x$?", "0 + x")
    assert own.answer(example, KEY, 0).endswith("<answer>\n\\boxed{0 + x}\n</answer>")


@pytest.mark.parametrize(
    ("row", "gold"),
    [
        ({"question": "q", "ground_truth_answer": "7"}, "7"),
        ({"problem": "q", "answer": r"so \boxed{7}"}, "7"),
        ({"problem": "q", "solution": "no box", "answer": "7"}, "7"),
        ({"problem": "q", "solution": r"\boxed{7}", "answer": "8"}, "7"),
        ({"Problem": "q", "Solution": None, "Answer": 7}, "7"),
    ],
)
def test_columns_of_the_copies_in_use(row, gold):
    own = Math500(test_file=jsonl([row]))
    assert own.check() == []
    assert own.test(1)[0]["answer"] == gold


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"problem": "q"}, "no column 'solution' or .*'answer'"),
        ({"answer": "5"}, "no column 'problem' or 'question'"),
        ({"problem": "q", "solution": "nothing boxed"}, "row 1: no right answer"),
        ({"problem": None, "answer": "5"}, "row 1: no question"),
    ],
)
def test_rows_without_question_or_answer_are_named(row, said):
    with pytest.raises(TaskError, match=said):
        Math500(test_file=jsonl([row])).test(1)


def test_an_unknown_revision_is_told(caplog):
    own = Math500(test_file=jsonl(ROWS))
    assert own.hub == "ankner/math-500"
    with caplog.at_level(logging.WARNING, "dllmzoo"), pytest.raises(TaskError, match=r"task\.file"):
        own.draw(1, KEY)
    assert "the card math-train names no revision of ankner/math-500" in caplog.text


def test_a_time_limit_is_needed():
    with pytest.raises(ValidationError, match="greater than 0"):
        Math500(time_limit=0)
