"""The hard part of AceCode, by hand: who is rarely solved, and not always alike."""

import json
from pathlib import Path

import pytest

from dllmzoo.errors import TaskError
from dllmzoo.tasks._code_data import QUESTION
from dllmzoo.tasks._hard_subset import INSTRUCTION, MODELS, hard_subset
from dllmzoo.tasks._tables import Table
from dllmzoo.zoo import TASKS


def row(name, *rates, question=None):
    answers = [
        {"model_name": MODELS[i % 2], "pass_rate": rate, "completion": "x"}
        for i, rate in enumerate(rates)
    ]
    answers.append({"model_name": "another", "pass_rate": 1.0, "completion": "x"})
    return {"question": question or f"add {name}", "test_cases": ["assert f(1)"],
            "inferences": answers}  # fmt: skip


EASY = [row(f"easy {i}", 0.9, 1.0) for i in range(20)]
# means 1/8 to 1/4; spreads 0, 1/8, 1/8, 1/4, 1/8: the 40th percentile of these is 1/8
HARD = [row("a", 0.125, 0.125), row("b", 0.0, 0.25), row("c", 0.25, 0.0, question="You add c"),
        row("d", 0.0, 0.5), row("e", 0.125, 0.375)]  # fmt: skip


def table(rows):
    return Table(rows, tuple(rows[0]), "ace.jsonl")


def test_the_lowest_fifth_of_the_means_and_of_it_the_upper_spreads():
    # 25 rows: the 20th percentile lies at position 4.8, between 1/4 and .95: the five hard ones
    found = hard_subset(table([*EASY, *HARD]), QUESTION).rows
    plain = [each["question"] for each in found if INSTRUCTION not in each["question"]]
    assert plain == ["add b", "You add c", "add d", "add e"]


def test_questions_that_speak_to_nobody_come_twice():
    found = hard_subset(table([*EASY, *HARD]), QUESTION).rows
    again = [each["question"] for each in found if each["question"].startswith(INSTRUCTION)]
    assert again == [f"{INSTRUCTION}\n\nadd {name}" for name in "bde"]
    assert HARD[1]["question"] == "add b", "the rows themselves are not changed"


def test_rows_that_nobody_rated_are_left_out():
    unrated = {**HARD[0], "question": "unrated", "inferences": None}
    assert len(hard_subset(table([unrated, *EASY, *HARD]), QUESTION).rows) == 7
    with pytest.raises(TaskError, match=r"no pass rates of qwen_coder_2\.5 or llama3_instruct"):
        hard_subset(table([unrated]), QUESTION)


def test_other_data_are_refused_with_what_to_do():
    bare = Table([{"question": "q", "test_cases": []}], ("question", "test_cases"), "mbpp.jsonl")
    with pytest.raises(TaskError, match=r"column 'inferences' of AceCode, which mbpp.jsonl has"):
        hard_subset(bare, QUESTION)


def test_a_code_task_trains_on_it(tmp_path):
    file = tmp_path / "ace.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in [*EASY, *HARD]))
    held = tmp_path / "held.jsonl"
    held.write_text(json.dumps(row("held", 1.0)) + "\n")
    options = {"file": str(file), "test_file": str(held), "sandbox": "subprocess"}
    made = TASKS.get("mbpp")(**options, subset="hard")
    assert len(made.training_rows()) == 7 and len(made.test_rows()) == 1
    assert len(TASKS.get("mbpp")(**options).training_rows()) == 25
    missing = TASKS.get("mbpp")(file=str(Path(held)), sandbox="subprocess", subset="hard")
    assert missing._problems.problems() == []
    held.write_text('{"question": "q", "test_cases": ["assert f(1)"]}\n')
    again = TASKS.get("mbpp")(file=str(held), sandbox="subprocess", subset="hard")
    assert "column 'inferences'" in again._problems.problems()[0]
