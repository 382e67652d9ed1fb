"""Demonstrations are measured before the first is drawn, and a message names where they stand."""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dllmzoo.errors import TaskError
from dllmzoo.tasks.chat import Chat
from dllmzoo.training import measured
from dllmzoo.training.measured import measure
from dllmzoo.training.prompts import Codec
from tests.unit.training.talk import END, MASK, TURN, said, talker

LENGTHS = 3, 30, 3, 3, 3, 3, 25, 3


@dataclass
class Data:
    """Chat rows whose answers have these characters, one blank line in the file behind row 2."""

    task: Any = field(default_factory=lambda: Chat(file="talk.jsonl", test_share=0.1))
    answer_length: int = 12
    tail: str = "end"
    too_long: str = "refuse"
    pack: int | None = None


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        json.dumps({"messages": [said("user", f"{n}?"), said("assistant", "a" * length)]})
        for n, length in enumerate(LENGTHS)
    ]
    lines.insert(2, "")
    Path("talk.jsonl").write_text("\n".join(lines) + "\n")
    Path("short.jsonl").write_text(lines[0] + "\n" + lines[3] + "\n")


def codec(max_length=None):
    return Codec(talker(), MASK, (TURN, END), max_length)


def test_too_long_rows_are_refused_at_once_with_file_and_line():
    with pytest.raises(TaskError) as caught:
        measure(Data(task=Chat(file="talk.jsonl", test_file="short.jsonl")), codec())
    said = str(caught.value)
    assert said.startswith("2 of 8 demonstrations are too long.")
    assert "talk.jsonl:2: a demonstration has 31 tokens, the answer canvas 12" in said
    assert "talk.jsonl:8: a demonstration has 26 tokens" in said, "blank lines are counted"
    assert "sft.too_long: drop" in said


def test_left_out_rows_are_counted(caplog):
    data = Data(task=Chat(file="talk.jsonl", test_file="short.jsonl"), too_long="drop")
    with caplog.at_level(logging.WARNING, "dllmzoo"):
        assert measure(data, codec()) == 2
    assert "2 of 8 demonstrations are too long and are left out" in caplog.text
    caplog.clear()
    assert measure(data, codec(), quiet=True) == 2 and not caplog.text
    with pytest.raises(TaskError, match="all 8 demonstrations are too long"):
        measure(Data(task=data.task, too_long="drop", answer_length=2), codec())


def test_what_fits_says_nothing(caplog):
    data = Data(task=Chat(file="talk.jsonl", test_file="short.jsonl"), answer_length=40)
    assert measure(data, codec()) == 0 and not caplog.text


def test_a_packed_row_and_the_model_are_limits_too():
    task = Chat(file="talk.jsonl", test_file="short.jsonl")
    with pytest.raises(TaskError, match=r"2 of 8.*\n.*talk.jsonl:2: .* a packed row 40; raise"):
        measure(Data(task=task, answer_length=40, pack=40), codec())
    with pytest.raises(TaskError, match=r"2 of 8.*\n.*talk.jsonl:2: .*exceed the model's 40"):
        measure(Data(task=task, answer_length=40), codec(40))


def test_measuring_that_takes_long_is_told_once(caplog, monkeypatch):
    monkeypatch.setattr(measured, "QUIET_SECONDS", -1.0)
    data = Data(task=Chat(file="talk.jsonl", test_file="short.jsonl"), answer_length=40)
    with caplog.at_level(logging.INFO, "dllmzoo"):
        measure(data, codec())
    assert caplog.text.count("measuring 8 demonstrations before training") == 1


def test_data_without_lines_are_named_by_row(tmp_path):
    Path("two.csv").write_text(f"q,a\nx,{'a' * 30}\ny,b\n")
    task = Chat(file="two.csv", prompt_column="q", answer_column="a", test_file="two.csv")
    with pytest.raises(TaskError, match=r"two.csv, row 1: a demonstration has 31 tokens"):
        measure(Data(task=task), codec())


def test_a_task_that_makes_its_examples_has_nothing_to_measure():
    assert measure(Data(task=object()), codec()) == 0
