"""The AIME task: integers from 0 to 999, a test without training data."""

import json
from pathlib import Path

import pytest

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.zoo import TASKS

Aime24 = TASKS.get("aime24")
KEY = Key(0, 0, "prompts")
ROWS = [{"problem": f"Problem {i}", "solution": "s", "answer": str(i)} for i in range(8)]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def jsonl(rows, name="train.jsonl"):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


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


def test_a_file_is_trained_on_without_the_test():
    own = Aime24(file=jsonl(ROWS), test_file=jsonl(ROWS[:3], "test.jsonl"))
    assert sorted(e["answer"] for e in own.draw(5, KEY)) == list("34567")
    [example] = own.test(1)
    assert own.answer(example, KEY, 0) == "s\n\\boxed{0}"
    assert own.prompt(example)[0]["content"].startswith("Problem 0")


@pytest.mark.parametrize("answer", ["1000", "-1", "2.5", "x", r"\frac12"])
def test_other_answers_are_refused_as_data(answer):
    [problem] = Aime24(test_file=jsonl([{"problem": "q", "answer": answer}])).check()
    assert "no integer from 0 to 999" in problem
    with pytest.raises(TaskError, match="no integer"):
        Aime24().reward(["x"], [{"question": "q", "answer": answer}])


def test_without_a_connection_it_says_what_to_download():
    assert Aime24().hub == "HuggingFaceH4/aime_2024"
    with pytest.raises(TaskError, match="hf download HuggingFaceH4/aime_2024"):
        Aime24().test(1)
