"""Conversations as data: forms, turns, sides, and what is refused."""

import json
from pathlib import Path

import datasets
import pytest
from pydantic import ValidationError

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.tasks._conversations import conversation, demonstrations, opening
from dllmzoo.tasks.chat import word_f1
from dllmzoo.zoo import TASKS

Chat = TASKS.get("chat")
KEY = Key(0, 0, "prompts")


def said(role, content):
    return {"role": role, "content": content}


def talk(number, turns=1):
    made = [said("system", "be brief")]
    for turn in range(turns):
        made += [said("user", f"q{number}.{turn}"), said("assistant", f"a{number}.{turn}")]
    return made


ROWS = [{"messages": talk(i, 1 + i % 2), "id": i} for i in range(20)]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def jsonl(rows, name="talk.jsonl"):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def task(rows=ROWS, **options):
    return Chat(file=jsonl(rows), **options)


# --- one conversation


def test_each_answer_is_a_row_whose_prompt_is_all_before_it():
    turns = [*talk(0, 2), said("user", "and?")]
    first, second = demonstrations(conversation(turns), "each")
    assert first == {"prompt": turns[:2], "answer": "a0.0"}
    assert second == {"prompt": turns[:4], "answer": "a0.1"}
    assert demonstrations(turns, "last") == [second]


def test_a_greeting_is_no_answer():
    turns = [said("assistant", "hello"), said("user", "q"), said("assistant", "a")]
    assert demonstrations(conversation(turns), "each") == [{"prompt": turns[:2], "answer": "a"}]
    assert json.loads(opening(turns)) == turns[:2]


def test_contents_in_parts_and_messages_as_json_text_are_read():
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    turns = [said("user", parts) | {"name": "x"}, said("assistant", "a")]
    assert conversation(json.dumps(turns)) == [said("user", "one two"), said("assistant", "a")]


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ("no json", "text that is no JSON"),
        (["a"], "no list of {role, content}"),
        (3, "no list of {role, content}"),
        ([said("tool", "x"), said("assistant", "a")], "turn 1 has the role 'tool'; roles are"),
        ([said("user", "q"), said("assistant", None)], r"turn 2 \(assistant\) has no text"),
        ([said("user", " "), said("assistant", "a")], r"turn 1 \(user\) has no text"),
        ([said("user", [{"image": "x"}]), said("assistant", "a")], "turn 1 has parts that are no"),
        ([said("user", "q"), said("assistant", "a") | {"tool_calls": [1]}], "turn 2 calls tools"),
        (
            [said("user", "q"), said("assistant", "a"), said("assistant", "b")],
            "turn 3 is the second",
        ),
        ([said("user", "q")], "the assistant answers nothing"),
        ([said("assistant", "a")], "the assistant answers nothing"),
        ([], "the assistant answers nothing"),
    ],
)
def test_what_cannot_be_imitated_is_refused(turns, message):
    with pytest.raises(ValueError, match=message):
        conversation(turns)


# --- data


def test_rows_are_drawn_once_an_epoch_and_conversations_stay_on_one_side():
    own = task(test_share=0.2)
    held = own.test(100)
    assert len(held) >= 6  # a fifth of 30 rows
    numbers = {row["answer"][1:].split(".")[0] for row in held}
    drawn = own.draw(30 - len(held), KEY)
    assert len({row["answer"] for row in [*drawn, *held]}) == 30
    assert numbers.isdisjoint(row["answer"][1:].split(".")[0] for row in drawn)
    assert own.test(2) == held[:2] and task(test_share=0.2).test(100) == held
    assert task(test_share=0.2, split_seed=1).test(100) != held


def test_the_order_of_the_file_does_not_move_the_split():
    told = sorted(row["answer"] for row in task(ROWS[::-1]).test(100))
    assert told == sorted(row["answer"] for row in task().test(100))


def test_the_last_turn_alone_makes_a_row_of_each_conversation():
    own = task(turns="last", test_share=0.5)
    assert len(own.draw(10, KEY)) + len(own.test(100)) == 20
    assert {len(own.prompt(row)) for row in own.test(100)} == {2, 4}


def test_two_columns_stand_for_messages():
    rows = [{"question": f"q{i}", "trace": f"a{i}"} for i in range(4)]
    own = task(rows, prompt="question", answer="trace")
    assert own.check() == []
    for row in [*own.draw(3, KEY), *own.test(9)]:
        assert own.prompt(row) == [said("user", "q" + row["answer"][1:])]
        assert own.answer(row, KEY, 0) == row["answer"]


def test_parquet_and_csv_hold_messages_too():
    datasets.Dataset.from_list(ROWS).to_parquet("talk.parquet")
    csv = "messages,n\n" + "".join(
        '"' + json.dumps(row["messages"]).replace('"', '""') + '",1\n' for row in ROWS
    )
    Path("talk.csv").write_text(csv)
    expected = without_place(task().test(100))
    assert without_place(Chat(file="talk.parquet").test(100)) == expected
    assert without_place(Chat(file="talk.csv").test(100)) == expected


def without_place(rows):
    return [{name: row[name] for name in ("prompt", "answer")} for row in rows]


def test_a_row_says_where_it_stands():
    lines = [json.dumps(row) for row in ROWS[:3]]
    Path("gaps.jsonl").write_text("\n\n".join(lines))
    own = Chat(file="gaps.jsonl", test_file=jsonl(ROWS[4:5], "held.jsonl"))
    places = [Path(row["at"]).name for row in own.training_rows()]
    assert places == ["gaps.jsonl:1", "gaps.jsonl:3", "gaps.jsonl:3", "gaps.jsonl:5"]
    Path("two.csv").write_text("q,a\nx,1\ny,2\n")
    columns = {"prompt_column": "q", "answer_column": "a"}
    own = Chat(file="two.csv", test_file="two.csv", **columns)
    assert [Path(row["at"]).name for row in own.training_rows()] == [
        "two.csv, row 1",
        "two.csv, row 2",
    ]


def test_held_out_files_and_splits_leave_all_others_for_training(monkeypatch):
    own = task(test_file=jsonl(ROWS[:2], "held.jsonl"))
    assert [row["answer"] for row in own.test(9)] == ["a0.0", "a1.0", "a1.1"]
    assert len({row["answer"] for row in own.draw(30, KEY)}) == 30
    asked = []

    def load(name, subset, *, split, revision):
        asked.append((name, subset, split, revision))
        return datasets.Dataset.from_list(ROWS if split == "train" else ROWS[:2])

    monkeypatch.setattr(datasets, "load_dataset", load)
    own = Chat(hub="me/talk", revision="abc", test_split="test")
    assert own.check() == [] and asked == []
    assert len(own.test(9)) == 3
    assert sorted(asked) == [
        ("me/talk", None, "test", "abc"), ("me/talk", None, "train", "abc"),
    ]  # fmt: skip


# --- what cannot be used


def test_building_reads_nothing_and_no_data_are_said():
    bare = Chat()
    assert bare.check() == ["the task chat has no data: give `file` (JSONL, CSV, Parquet) or `hub`"]
    with pytest.raises(TaskError, match="has no data"):
        bare.draw(1, KEY)


def test_rows_that_cannot_be_used_are_named_by_check():
    rows = [*ROWS[:2], {"messages": [said("user", "q")]}, {"messages": [said("tool", "x")]}]
    [problem] = task(rows).check()
    assert "row 3: the assistant answers nothing in it; row 4: turn 1 has the role" in problem


def test_a_missing_column_is_answered_with_what_to_write():
    [problem] = task([{"question": "q", "trace": "a"}]).check()
    assert "has no column 'messages' with messages; there are: question, trace" in problem
    assert "name two columns, a question and its answer, as `task.prompt`" in problem
    [problem] = task([{"q": "q", "a": "a"}], prompt="q", answer="gold").check()
    assert "has no column 'gold'" in problem


def test_conversations_that_open_alike_cannot_be_divided():
    with pytest.raises(TaskError, match="open alike, so none can be held out; give test_file"):
        task([ROWS[0]] * 3).test(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file": "a", "hub": "b"}, "both file and hub"),
        ({"hub": "b", "test_split": "x", "test_file": "y"}, "both test_file and test_split"),
        ({"file": "a", "revision": "x"}, "revision belongs to hub"),
        ({"file": "a", "prompt": "x"}, "need both: prompt and answer"),
        ({"file": "a", "turns": "first"}, "'each' or 'last'"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        Chat(**options)


# --- metrics


def test_an_answer_counts_if_it_is_the_very_one_and_by_its_words():
    own = task()
    rows = own.test(2)
    right = rows[0]["answer"]
    found = own.metrics([f" {right}\n", f"{rows[1]['answer']} indeed so"], rows)
    assert found["exact_match"].hits == [1.0, 0.0]
    assert found["word_f1"].hits == [1.0, pytest.approx(0.5)]  # 2 * 1 / (3 + 1)
    assert own.reward([right, ""], rows).total_X.tolist() == [1.0, 0.0]


def test_words_are_shared_as_often_as_both_have_them():
    assert word_f1("the the cat", "The cat the") == 1.0
    assert word_f1("a a a", "a b") == pytest.approx(2 * 1 / 5)
    assert word_f1("", "a") == word_f1("", "") == 0.0
