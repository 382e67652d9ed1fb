"""Laws of every registered task; a new one is tested the moment its file exists."""

import json

import pytest

from dllmzoo.laws import LAWS, check_task
from dllmzoo.zoo import TASKS


@pytest.fixture
def make(tmp_path):
    """A task built as it stands, or on data of its own where it has none."""
    data = tmp_path / "data.jsonl"
    rows = [{"prompt": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(40)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"records": {"file": str(data)}}
    return lambda name: TASKS.get(name)(**settings.get(name, {}))


@pytest.mark.parametrize("name", TASKS.names())
def test_every_task_obeys_the_laws(name, make):
    report = check_task(make(name))
    assert {*report.held, *report.silent, *report.exempt} == set(LAWS["task"])
    assert report.held
