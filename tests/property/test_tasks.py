"""Laws of every registered task; a new one is tested the moment its file exists."""

import json
from pathlib import Path

import pytest
import torch

from dllmzoo.laws import LAWS, check_task
from dllmzoo.records import Key
from dllmzoo.training.background import Background
from dllmzoo.zoo import TASKS
from tests.unit.tasks.code_rows import MBPP


@pytest.fixture
def make(tmp_path):
    """A task built as it stands, or on data of its own where it has none."""
    rows = [
        {"prompt": question, "question": question, "answer": str(i + 1)}
        for i, question in enumerate(f"What is {i} + 1?" for i in range(40))
    ]
    data, test = tmp_path / "data.jsonl", tmp_path / "test.jsonl"
    for file, part in ((data, rows), (test, rows[:8])):
        file.write_text("".join(json.dumps(row) + "\n" for row in part))
    asked = {"file": str(data), "test_file": str(test)}
    settings = {
        "records": {"file": str(data)},
        "chat": {"file": str(data), "prompt": "question", "answer": "answer"},
    } | dict.fromkeys(("gsm8k", "math500", "aime24"), asked)
    code = {"sandbox": "subprocess", "workers": 1}
    for side, part in (("file", MBPP), ("test_file", MBPP[:8])):
        code[side] = str(tmp_path / f"programs_{side}.jsonl")
        Path(code[side]).write_text("".join(json.dumps(row) + "\n" for row in part))
    settings |= dict.fromkeys(("mbpp", "humaneval", "kodcode"), code)
    return lambda name: TASKS.get(name)(**settings.get(name, {}))


@pytest.mark.parametrize("name", TASKS.names())
def test_every_task_obeys_the_laws(name, make):
    report = check_task(make(name))
    assert {*report.held, *report.silent, *report.exempt} == set(LAWS["task"])
    assert report.held


@pytest.mark.parametrize("name", TASKS.names())
def test_a_task_judges_the_same_in_another_thread(name, make):
    key, here, beside = Key(0, 0, "prompts"), make(name), make(name)
    examples = here.draw(3, key) * 2
    right = [here.answer(example, key.sub("answer"), i) for i, example in enumerate(examples[:3])]
    texts = [*right, "no idea", right[1][::-1], ""]
    thread = Background("rewards")
    found = thread.call(lambda: (beside.reward(texts, examples), beside.metrics(texts, examples)))
    rewards, metrics = found.result(300)
    thread.finish()
    expected = here.reward(texts, examples)
    for part in ("total_X", "part_XC", "counted_X", "outcome_XC"):
        assert torch.equal(getattr(rewards, part), getattr(expected, part))
    assert metrics == here.metrics(texts, examples)
