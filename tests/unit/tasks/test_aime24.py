"""The AIME task: integers from 0 to 999, a test without training data."""

import pytest

from dllmzoo.errors import TaskError
from dllmzoo.zoo import TASKS
from tests.unit.tasks.question_files import KEY, jsonl, question_task
from tests.unit.tasks.question_files import ROWS as EVERY

Aime24 = TASKS.get("aime24")
ROWS = EVERY["aime24"][:8]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (r"\boxed{25}", True), (r"\boxed{025}", True), (r"\boxed{25.0}", True),
        ("<answer>25</answer>", True), (r"\boxed{1} \boxed{25}", True), (r"\boxed{25.5}", False),
        (r"\boxed{-25}", False), (r"\boxed{1025}", False), ("25", False), (r"\boxed{5^2}", False),
        (r"\boxed{25 or 26}", False), (r"\boxed{99**99**99}", False), ("", False),
    ],
)  # fmt: skip
def test_integers_are_compared_exactly(text, right):
    example = {"question": "q", "answer": "025"}
    own = Aime24(rewards={"correct": 1.0, "signed": 1.0})
    found = own.reward([text], [example])
    assert found.part_XC.tolist() == [[1.0, 1.0] if right else [0.0, -1.0]]
    assert own.metrics([text], [example])["solved_rate"].hits == [float(right)]


def test_metrics_of_extraction():
    own, example = Aime24(), {"question": "q", "answer": "5"}
    metrics = own.metrics([r"\boxed{x}", "<answer>5</answer>", ""], [example] * 3)
    assert metrics["parse_rate"].hits == [0, 1, 0]
    assert metrics["extracted_by/boxed"].hits == [1, 0, 0]
    assert metrics["extracted_by/nothing"].hits == [0, 0, 1]


def test_there_is_nothing_to_train_on_without_a_file():
    own = Aime24(test_file=jsonl(ROWS))
    assert own.check() == [] and own.hub is None and len(own.test(30)) == 8
    with pytest.raises(TaskError, match=r"no training data.*math500.*task.file"):
        own.draw(1, KEY)


def test_a_file_is_trained_on():
    own = question_task("aime24")
    assert own.problems("rl") == [] and Aime24().problems("sft") == Aime24().problems("rl") != []
    [example] = own.test(1)
    assert own.answer(example, KEY, 0) == "s\n\\boxed{0}"
    assert own.prompt(example)[0]["content"].startswith("Problem 0")


@pytest.mark.parametrize("answer", ["1000", "-1", "2.5", "x", r"\frac12"])
def test_other_answers_are_refused_as_data(answer):
    [problem] = Aime24(test_file=jsonl([{"problem": "q", "answer": answer}])).check()
    assert "no integer from 0 to 999" in problem
    with pytest.raises(TaskError, match="no integer"):
        Aime24().reward(["x"], [{"question": "q", "answer": answer}])
