"""Own data as a task: columns by name, rewards by name, held-out records."""

import json
from pathlib import Path

import datasets
import pytest
from pydantic import ValidationError

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.tasks import _functions
from dllmzoo.tasks.records import reward
from dllmzoo.zoo import TASKS

Records = TASKS.get("records")
ROWS = [{"question": f"{i}+1", "gold": i + 1} for i in range(40)]
KEY = Key(0, 0, "prompts")


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    """A folder of its own, and declarations that are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    before = dict(_functions.FUNCTIONS)
    yield
    _functions.FUNCTIONS.clear()
    _functions.FUNCTIONS.update(before)


def jsonl(rows, name="data.jsonl"):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def task(rows=ROWS, **options):
    options = {"prompt": "question", "answer": "gold", **options}
    return Records(file=jsonl(rows), **options)


def told(rows):
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


# --- data


def test_building_with_defaults_reads_nothing():
    bare = Records()
    assert bare.check() == [
        "the task records has no data: give `file` (JSONL, CSV, Parquet) or `hub`"
    ]
    with pytest.raises(TaskError, match="has no data"):
        bare.draw(1, KEY)


def test_the_example_of_the_issue_is_a_task():
    @reward("my_reward", columns=("gold",))
    def my_reward(texts, records):
        return [
            float(text == str(record["gold"])) for text, record in zip(texts, records, strict=True)
        ]

    own = task(rewards={"my_reward": 1.0})
    assert own.check() == []
    [example] = own.draw(1, KEY)
    assert own.prompt(example) == example["question"]
    assert own.answer(example, KEY, 0) == str(example["gold"])
    texts = [str(example["gold"]), "no"]
    assert own.reward(texts, [example] * 2).total_X.tolist() == [1.0, 0.0]


def test_a_tenth_is_held_out_and_never_trained_on():
    own = task()
    held = own.test(100)
    assert len(held) == 4
    drawn = [row for r in range(9) for row in own.draw(4, Key(0, r, "prompts"))]
    assert told(drawn + held) == told(ROWS)
    assert own.test(2) == held[:2]
    assert task().test(4) == held
    assert task(split_seed=1).test(4) != held


def test_records_are_drawn_once_an_epoch_as_a_function_of_the_key():
    own = task(test_share=0.5)
    epochs = [own.draw(20, Key(0, r, "prompts")) for r in range(3)]
    assert told(epochs[0]) == told(epochs[1]) == told(epochs[2])
    assert epochs[0] != epochs[1] != epochs[2]
    assert task(test_share=0.5).draw(20, Key(0, 2, "prompts")) == epochs[2]
    assert own.draw(20, Key(1, 0, "prompts")) != epochs[0]


def test_records_of_one_prompt_stay_on_one_side():
    rows = [{"question": f"q{i % 5}", "gold": i} for i in range(50)]
    own = task(rows, test_share=0.3)
    held = {row["question"] for row in own.test(50)}
    assert len(own.test(50)) == 20  # 10 records a prompt; two prompts are the least that make 15
    assert held.isdisjoint(row["question"] for row in own.draw(200, KEY))


def test_the_order_of_the_file_does_not_move_the_split():
    held = told(task().test(4))
    assert told(task(ROWS[::-1]).test(4)) == held


def test_a_single_prompt_cannot_be_divided():
    with pytest.raises(TaskError, match=r"one prompt only.*give test_file"):
        task([{"question": "q", "gold": 1}] * 3).test(1)


def test_a_test_file_is_the_test_list_in_its_order():
    test = jsonl([{"question": "x", "gold": "y"}, {"question": "z", "gold": "w"}], "test.jsonl")
    own = task(test_file=test)
    assert [row["question"] for row in own.test(5)] == ["x", "z"]
    assert told(own.draw(40, KEY)) == told(ROWS)


def test_csv_prompts_and_answers_stay_text():
    Path("data.csv").write_text("question,gold,n\n0012,007,3\n0013,008,4\n")
    own = Records(file="data.csv", prompt="question", answer="gold", test_file="data.csv")
    assert own.test(1) == [{"question": "0012", "gold": "007", "n": 3}]
    assert own.metrics(["007"], own.test(1))["solved_rate"].value == 1.0


def test_data_of_the_hub(monkeypatch):
    asked = []

    def load(name, subset, *, split, revision):
        asked.append((name, subset, split, revision))
        return datasets.Dataset.from_list(ROWS if split == "train" else ROWS[:3])

    monkeypatch.setattr(datasets, "load_dataset", load)
    own = Records(
        hub="me/data", subset="main", revision="abc", prompt="question", answer="gold",
        test_split="test",
    )  # fmt: skip
    assert own.check() == [] and asked == []
    assert own.test(5) == ROWS[:3]
    assert told(own.draw(40, KEY)) == told(ROWS)
    assert asked == [("me/data", "main", "test", "abc"), ("me/data", "main", "train", "abc")]


def test_data_of_the_hub_that_cannot_be_had_say_what_to_download():
    with pytest.raises(TaskError, match="hf download nobody/nothing"):
        Records(hub="nobody/nothing").draw(1, KEY)


# --- what is wrong with data is known before training


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prompt": "prompts"}, "data.jsonl has no column 'prompts' for the prompt .*question"),
        ({"answer": "answer"}, "data.jsonl has no column 'answer' for the right answer"),
        ({"rewards": {"mine": 1.0}}, "no column 'level', which the reward 'mine' reads"),
    ],
)
def test_a_missing_column_is_named_with_the_file(options, said):
    reward("mine", columns=("gold", "level"))(lambda texts, records: [1.0] * len(texts))
    [problem] = task(**options).check()
    with pytest.raises(TaskError, match=said):
        task(**options).draw(1, KEY)
    assert "data.jsonl has no column" in problem


def test_a_column_that_no_one_declared_is_named_when_it_is_read():
    @reward("mine")
    def mine(texts, records):
        return [record["level"] for record in records]

    own = task(rewards={"mine": 1.0})
    with pytest.raises(TaskError, match=r"column 'level', which data.jsonl does not have"):
        own.reward(["a"], own.draw(1, KEY))


def test_data_without_answers_need_none():
    reward("mine")(lambda texts, records: [1.0] * len(texts))
    own = task([{"question": "q"}, {"question": "r"}], answer=None, rewards={"mine": 1.0})
    assert own.check() == []
    with pytest.raises(TaskError, match=r"needs `task.answer`"):
        own.answer({"question": "q"}, KEY, 0)


def test_files_that_are_not_there_are_both_told():
    problems = Records(file="a.jsonl", test_file="b.jsonl").check()
    assert ["a.jsonl is not there" in problems[0], "b.jsonl is not there" in problems[1]] == [
        True
    ] * 2


@pytest.mark.parametrize("prompt", [None, "", 3, [], [{"role": "user"}], ["a"]])
def test_a_record_without_a_prompt_is_named(prompt):
    [problem] = task([{"question": prompt, "gold": "g"}], test_file=jsonl(ROWS, "t.jsonl")).check()
    assert "neither text nor a list of messages" in problem and '"gold": "g"' in problem


# --- prompts and demonstrations


def test_chat_makes_a_user_message_of_text():
    example = {"question": "hello", "gold": "x"}
    assert task().prompt(example) == "hello"
    assert task(chat=True).prompt(example) == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("chat", [True, False])
def test_messages_stay_messages(chat):
    messages = [{"role": "system", "content": "be short"}, {"role": "user", "content": "hi"}]
    rows = [{"question": messages, "gold": "x"}, {"question": [{**messages[1], "name": "n"}]}]
    own = task(rows, chat=chat, test_file=jsonl(ROWS, "test.jsonl"))
    prompts = [own.prompt(example) for example in own.draw(2, KEY)]
    assert messages in prompts and messages[1:] in prompts


def test_a_demonstration_needs_an_answer():
    with pytest.raises(TaskError, match=r"has no 'gold': .*hello"):
        task().answer({"question": "hello", "gold": None}, KEY, 0)


# --- rewards


def test_exact_match_and_contains():
    own = task(rewards={"exact_match": 1.0, "contains": 0.5})
    examples = [{"question": "q", "gold": gold} for gold in (42, 42, 42, " 42 ", None, "")]
    rewards = own.reward(["42", " 42\n", "it is 42.", "42", "42", ""], examples)
    assert rewards.part_XC[:, 0].tolist() == [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert rewards.part_XC[:, 1].tolist() == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert rewards.total_X.tolist() == [1.5, 1.5, 0.5, 1.5, 0.0, 0.0]
    assert rewards.counted_X.tolist() == [True] * 4 + [False] * 2


def test_errors_follow_the_policy():
    @reward("mine")
    def mine(texts, records):
        return [1 / len(text) for text in texts]

    examples = [ROWS[0]] * 2
    with pytest.raises(TaskError, match=r"'mine' fails on text 1 .*ZeroDivisionError"):
        task(rewards={"mine": 1.0}).reward(["a", ""], examples)
    zero = task(rewards={"mine": 1.0}, on_error="zero").reward(["a", ""], examples)
    assert (zero.total_X.tolist(), zero.counted_X.tolist()) == ([1.0, 0.0], [True, True])
    abstain = task(rewards={"mine": 1.0}, on_error="abstain").reward(["a", ""], examples)
    assert abstain.counted_X.tolist() == [True, False]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rewards": {"exact_mach": 1.0}}, "Did you mean 'exact_match'"),
        ({"rewards": {"foo": 1.0}}, "no reward named 'foo'.*plugins"),
        ({"rewards": {"exact_match": 0.0}}, "weight other than 0"),
        ({"answer": None}, "'exact_match' reads the right answer, but answer: null"),
        ({"file": "a.csv", "hub": "b"}, "both file and hub"),
        ({"hub": "b", "test_file": "a.csv", "test_split": "c"}, "both test_file and test_split"),
        ({"file": "a.csv", "test_split": "c"}, "test_split belongs to hub"),
        ({"file": "a.csv", "revision": "c"}, "revision belongs to hub"),
        ({"test_share": 1.0}, "less than 1"),
        ({"test_share": 0.0}, "greater than 0"),
        ({"prompt": 3}, "valid string"),
    ],
)
def test_impossible_options_are_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        Records(**options)


def test_columns_have_a_long_name_too():
    assert Records(prompt_column="q", answer_column="a") == Records(prompt="q", answer="a")


# --- metrics


def test_metrics_are_means_of_what_counts():
    own = task(rewards={"exact_match": 1.0, "contains": 0.5}, solved_at=0.5)
    examples = [{"question": "q", "gold": gold} for gold in ("a", "a", "a", None)]
    metrics = own.metrics(["a", "ab", "b", "a"], examples)
    # totals 1.5, .5, 0 and one that abstains
    assert metrics["solved_rate"].value == pytest.approx(2 / 3)
    assert metrics["solved_rate"].hits == [1.0, 1.0, 0.0, 0.0]
    assert metrics["reward"].value == pytest.approx(2 / 3)
    assert metrics["reward/exact_match"].value == pytest.approx(1 / 3)
    assert metrics["reward/contains"].value == pytest.approx(2 / 3)
    assert own.primary == "solved_rate"


def test_rounding_does_not_unsolve():
    reward("a")(lambda texts, records: [1.0] * len(texts))
    reward("b")(lambda texts, records: [1.0] * len(texts))
    own = task(rewards={"a": 0.9, "b": 0.1}, answer=None)
    assert own.metrics(["x"], ROWS[:1])["solved_rate"].value == 1.0


def test_metrics_of_a_round_judge_no_text_twice():
    calls = []

    @reward("mine")
    def mine(texts, records):
        calls.append(list(texts))
        return [1.0] * len(texts)

    own, examples = task(rewards={"mine": 1.0}), ROWS[:2]
    own.reward(["a", "b"], examples)
    own.reward(["guess a", "guess b"], examples)
    assert own.metrics(["a", "b"], examples)["solved_rate"].value == 1.0
    assert calls == [["a", "b"], ["guess a", "guess b"]]
    own.metrics(["a", "b"], [dict(row) for row in examples])
    assert calls[2:] == [["a", "b"]]


def test_functions_overlap_only_where_all_of_them_say_so():
    reward("waits", overlaps=True)(lambda texts, records: [0.0] * len(texts))
    reward("signals")(lambda texts, records: [0.0] * len(texts))
    assert task().overlaps and task(rewards={"waits": 1.0, "contains": 1.0}).overlaps
    assert not task(rewards={"waits": 1.0, "signals": 0.0}).overlaps
