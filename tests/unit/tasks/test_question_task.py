"""What tasks of questions share: data, epochs, prompts, demonstrations, files."""

import logging

import datasets
import pytest

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.zoo import TASKS
from tests.unit.tasks.question_files import KEY, ROWS, gold, jsonl, question_task

NAMES = sorted(ROWS)
STYLES = ["chat", "boxed", "text", "d1_eval"]
CARDS = {
    "gsm8k": ("openai/gsm8k", "main/test"), "math500": ("HuggingFaceH4/MATH-500", "test"),
    "aime24": ("HuggingFaceH4/aime_2024", "train"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_files_have_no_problem_and_need_no_hub(name):
    own = question_task(name)
    assert own.check() == [] and own.hub is None
    assert [e["answer"] for e in own.test(9)] == [gold(name, row) for row in range(4)]
    assert own.test(2) == own.test(9)[:2]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("style", STYLES)
def test_demonstrations_are_right_in_every_style(name, style):
    own = question_task(name, prompt_style=style)
    examples = own.draw(5, KEY)
    texts = [own.answer(example, KEY, 0) for example in examples]
    assert own.reward(texts, examples).total_X.tolist() == [1.0] * 5
    assert own.metrics(texts, examples)["solved_rate"].hits == [1.0] * 5
    prompts = [own.prompt(example) for example in examples]
    assert all(isinstance(each, str) == (style == "text") for each in prompts)
    for example, prompt in zip(examples, prompts, strict=True):
        said = prompt if style == "text" else prompt[0]["content"]
        assert example["question"] in said


@pytest.mark.parametrize("name", NAMES)
def test_training_goes_through_shuffled_epochs(name):
    own = question_task(name)
    drawn = [e["answer"] for r in range(4) for e in own.draw(4, Key(0, r, "prompts"))]
    assert sorted(drawn) == sorted(gold(name, row) for row in range(4, 20))
    assert drawn != [gold(name, row) for row in range(4, 20)]
    assert question_task(name).draw(4, KEY) == own.draw(4, KEY)


@pytest.mark.parametrize("name", NAMES)
def test_test_questions_are_left_out_of_training(name, caplog):
    first = next(iter(ROWS[name][0]))
    spaced = {**ROWS[name][0], first: f" {ROWS[name][0][first].upper()} ".replace(" ", "  ")}
    own = question_task(name, file=jsonl([spaced, *ROWS[name][1:]], "more.jsonl"))
    with caplog.at_level(logging.WARNING, "dllmzoo"):
        drawn = own.draw(16, KEY)
    assert "4 of 20 training examples are in the test set" in caplog.text
    assert {e["answer"] for e in drawn} == {gold(name, row) for row in range(4, 20)}
    with pytest.raises(TaskError, match="nothing is left to train on"):
        question_task(name, file=jsonl(ROWS[name][:4], "few.jsonl")).draw(1, KEY)


@pytest.mark.parametrize("name", NAMES)
def test_parquet_and_csv_are_read(name):
    datasets.Dataset.from_list(ROWS[name]).to_parquet("rows.parquet")
    datasets.Dataset.from_list(ROWS[name][:3]).to_csv("rows.csv")
    own = TASKS.get(name)(file="rows.parquet", test_file="rows.csv")
    assert own.check() == []
    assert [e["answer"] for e in own.test(5)] == [gold(name, row) for row in range(3)]
    assert len(own.draw(17, KEY)) == 17


@pytest.mark.parametrize("name", NAMES)
def test_without_a_connection_it_says_what_to_download_and_where_to_put_it(name):
    hub, part = CARDS[name]
    assert TASKS.get(name)().hub == hub
    with pytest.raises(TaskError) as caught:
        TASKS.get(name)().test(1)
    said = str(caught.value)
    assert f"{hub} ({part}) cannot be had" in said
    assert f"hf download {hub} --repo-type dataset" in said and "`task.test_file`" in said


@pytest.mark.parametrize("name", NAMES)
def test_training_data_alone_can_be_drawn_from_without_a_connection(name, caplog):
    own = TASKS.get(name)(file=jsonl(ROWS[name]))
    with caplog.at_level(logging.WARNING, "dllmzoo"):
        assert len(own.draw(20, KEY)) == 20
    assert "not known whether training data are in it" in caplog.text


@pytest.mark.parametrize("name", NAMES)
def test_ways_of_extraction_are_shares_of_all_texts(name):
    own = TASKS.get(name)()
    example = {"question": "q", "answer": "5"}
    metrics = own.metrics(["<answer>5</answer>", r"\boxed{5}", "", "none"], [example] * 4)
    shares = {n: sum(r.hits) for n, r in metrics.items() if n.startswith("extracted_by/")}
    assert {n: share for n, share in shares.items() if share} == {
        "extracted_by/tag": 1, "extracted_by/boxed": 1, "extracted_by/nothing": 2,
    }  # fmt: skip
    assert set(shares) == {f"extracted_by/{way}" for way in own.ways}
