"""The Countdown task: prompts, rewards, splits, files, the public set."""

import json
import time
from collections import Counter
from pathlib import Path

import datasets
import pytest
from pydantic import ValidationError

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.tasks import _countdown_data
from dllmzoo.zoo import TASKS

Countdown = TASKS.get("countdown")
KEY = Key(0, 0, "prompts")


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def jsonl(rows, name="games.jsonl"):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def game(*numbers, target):
    return {"numbers": list(numbers), "target": target}


def graded(answer, numbers=(2, 3, 4), target=5, name="expression", tagged=True, **options):
    text = f"<reasoning>x</reasoning><answer>{answer}</answer>" if tagged else answer
    task = Countdown(rewards={name: 1.0}, **options)
    return task.reward([text], [game(*numbers, target=target)]).total_X.item()


# --- rewards


@pytest.mark.parametrize(
    ("answer", "numbers", "target", "released", "right"),
    [
        ("2**4-3", (2, 3, 4), 13, 1.0, 0.1),
        ("7//2*3", (7, 2, 3), 9, 1.0, 0.1),
        ("2.4*3", (2, 4, 3), 7, 0.1, 0.1),
        ("99**99**99", (99, 99, 99), 13, 0.1, 0.1),
        ("2*4-3 = 5", (2, 3, 4), 5, 0.1, 0.1),
        ("2*4-3", (2, 3, 4), 5, 1.0, 1.0),
        ("", (2, 3, 4), 5, 0.1, 0.0),
        (" \n", (2, 3, 4), 5, 0.1, 0.0),
        ("2+3", (2, 3, 4), 5, 0.1, 0.1),
        ("(2*3)*4/0", (2, 3, 4), 13, 0.1, 0.1),
        ("2+3", (2, 2, 3), 5, 0.1, 0.1),
        ("2+2", (2, 3), 4, 0.1, 0.1),
        ("1/3*3", (1, 3, 3), 1, 1.0, 1.0),
    ],
)
def test_the_table_of_wrong_and_right(answer, numbers, target, released, right):
    start = time.perf_counter()
    assert graded(answer, numbers, target) == pytest.approx(right)
    assert graded(answer, numbers, target, "expression_released") == pytest.approx(released)
    assert graded(answer, numbers, target, "solved") == float(right == 1.0)
    assert time.perf_counter() - start < 0.15


def test_the_last_tag_counts_and_none_is_nothing():
    assert graded("1</answer><answer>2*4-3") == 1.0
    assert graded("2*4-3</answer><answer>1") == pytest.approx(0.1)
    assert graded("2*4-3", tagged=False) == 0.0
    assert graded("<answer>2*4-3", tagged=False) == 0.0


def test_options_of_the_parser():
    assert graded("", empty_tag=0.1) == pytest.approx(0.1)
    assert graded("2*4-3 = 5", parser="d1_eval") == 1.0
    assert graded(r"so \boxed{2*4-3=5}", tagged=False, parser="d1_eval") == 1.0
    assert graded(r"\boxed{2*4-3}", tagged=False) == 0.0
    assert graded("-3+2*4") == pytest.approx(0.1)
    assert graded("-3+2*4", unary_minus=True) == 1.0
    assert graded(r"2 \times 4 - 3") == 1.0


def test_in_compact_style_the_whole_text_is_the_expression():
    assert graded("2*4-3", tagged=False, prompt_style="compact") == 1.0
    assert graded("<answer>2*4-3</answer>", tagged=False, prompt_style="compact") == pytest.approx(
        0.1
    )
    assert graded("", tagged=False, prompt_style="compact") == 0.0
    released = graded(
        "2**4-3", target=13, tagged=False, prompt_style="compact", name="expression_released"
    )
    assert released == 1.0


def test_metrics_use_the_parser_of_the_rewards():
    texts = ["<answer>2*4-3</answer>", "<answer>2+3</answer>", "<answer>2**4</answer>", "no"]
    metrics = Countdown().metrics(texts, [game(2, 3, 4, target=5)] * 4)
    assert {name: ratio.hits for name, ratio in metrics.items()} == {
        "solved_rate": [1, 0, 0, 0],
        "parse_rate": [1, 1, 0, 0],
        "numbers_right_rate": [1, 0, 0, 0],
    }
    assert Countdown.primary == "solved_rate"


# --- prompts


def test_prompts_are_messages_text_or_compact():
    example = game(3, 5, 2, target=16)
    [user] = Countdown().prompt(example)
    assert user["role"] == "user" and user["content"].endswith("Numbers: 3, 5, 2\nTarget: 16")
    assert Countdown(prompt_style="text").prompt(example).startswith(user["content"])
    assert Countdown(prompt_style="compact").prompt(example) == "3,5,2=16?"
    user_too, begun = Countdown(prompt_style="d1_eval").prompt(example)
    assert user_too == user and begun == {"role": "assistant", "content": "<reasoning>"}


def test_compact_games_use_few_characters():
    task = Countdown(prompt_style="compact")
    examples = task.draw(100, KEY)
    text = "".join(task.prompt(e) + task.answer(e, KEY, 0) for e in examples)
    assert set(text) <= set("0123456789,=?+-*/()")


@pytest.mark.parametrize("style", ["chat", "text", "compact"])
def test_demonstrations_are_solutions(style):
    task = Countdown(prompt_style=style)
    examples = [*task.draw(20, KEY), game(1, 3, 4, 6, target=24)]
    answers = [task.answer(example, KEY, i) for i, example in enumerate(examples)]
    assert task.reward(answers, examples).total_X.tolist() == [1.0] * 21


def test_a_game_without_a_solution_cannot_be_demonstrated():
    with pytest.raises(TaskError, match=r"\[2, 2\] -> 7 has no solution"):
        Countdown().answer(game(2, 2, target=7), KEY, 0)


# --- splits


def sets(examples):
    return {tuple(sorted(example["numbers"])) for example in examples}


@pytest.mark.parametrize("options", [{}, {"largest": 12, "test_share": 0.3}, {"numbers": 4}])
def test_no_numbers_are_on_both_sides(options):
    task = Countdown(**options)
    held = task.test(100)
    assert len(held) == 100 and task.test(7) == held[:7]
    drawn = [example for r in range(10) for example in task.draw(50, Key(0, r, "prompts"))]
    assert sets(held).isdisjoint(sets(drawn))


def test_a_small_space_is_divided_whole():
    task = Countdown(numbers=2, largest=9, test_share=0.3)
    held = sets(task.test(10_000))
    drawn = sets(task.draw(3000, KEY))
    assert held.isdisjoint(drawn)
    assert len(held) > 5 and len(held | drawn) > 40  # of 45 pairs


def test_draws_differ_from_round_to_round():
    task = Countdown()
    assert task.draw(5, KEY) == task.draw(5, KEY) != task.draw(5, Key(0, 1, "prompts"))
    assert len(task.draw(5, KEY)) == 5 and task.test(0) == []


def test_a_test_file_is_kept_out_of_generated_training():
    rows = [{"input": f"{a},{b}", "output": str(a + b)} for a in range(1, 10) for b in range(a, 10)]
    path = jsonl(rows[:40])
    task = Countdown(numbers=2, largest=9, test_file=path)
    assert len(task.test(100)) == 40
    assert sets(task.draw(200, KEY)).isdisjoint(sets(task.test(100)))
    assert task.check() == []


def test_a_file_is_divided_by_its_numbers():
    rows = [{"nums": [a, b, 7], "target": a + b + 7} for a in range(1, 15) for b in range(1, 15)]
    task = Countdown(file=jsonl(rows))
    held, drawn = task.test(500), task.draw(180, KEY)
    assert sets(held).isdisjoint(sets(drawn)) and held
    training = len(rows) - len(held)
    counted = Counter(str(example) for example in task.draw(training, KEY))
    assert len(counted) == training  # once an epoch


def test_a_file_and_a_test_file():
    train = jsonl([{"nums": [1, 2, n], "target": 3 + n} for n in range(1, 20)])
    test = jsonl([{"nums": [5, 2, 1], "target": 8}], "test.jsonl")
    task = Countdown(file=train, test_file=test)
    assert task.test(5) == [game(5, 2, 1, target=8)]
    assert all(example["numbers"][2] != 5 for example in task.draw(18, KEY))


def test_csv_files_are_read():
    Path("games.csv").write_text('nums,target\n"[3, 5, 2]",16\n"[1, 2, 3]",6\n')
    assert Countdown(test_file="games.csv").test(1) == [game(3, 5, 2, target=16)]


# --- the public set


class Served:
    """Rows that stand for the hub's."""

    def __init__(self, rows):
        self.rows = datasets.Dataset.from_list(rows)
        self.asked = []

    def __call__(self, name, subset, *, split, revision):
        self.asked.append((name, subset, split, revision))
        return self.rows


@pytest.fixture
def served(monkeypatch):
    rows = [{"nums": [n, n + 1, 5], "target": 2 * n + 6} for n in range(1, 900)]
    rows += [{"nums": [n, 1, 2, 3], "target": n + 6} for n in range(1, 100)]
    hub = Served(rows)
    monkeypatch.setattr(datasets, "load_dataset", hub)
    return hub


def test_the_public_set_is_divided_as_d1_divides_it(served):
    task = Countdown(card="countdown-3to4")
    assert task.check() == [] and task.hub == "Jiayi-Pan/Countdown-Tasks-3to4"
    assert served.asked == []
    of_three = served.rows.filter(lambda row: len(row["nums"]) == 3).shuffle(seed=42)
    assert [e["numbers"] for e in task.test(1000)] == of_three[len(of_three) - 500 :]["nums"]
    drawn = task.draw(399, KEY)
    assert sorted(e["numbers"] for e in drawn) == sorted(of_three[: len(of_three) - 500]["nums"])
    [(name, subset, split, revision)] = served.asked
    assert (name, subset, split) == ("Jiayi-Pan/Countdown-Tasks-3to4", None, "train")
    assert len(revision) == 40


def test_numbers_of_a_test_file_are_kept_out_of_the_public_set(served):
    path = jsonl([{"input": "5,11,10", "output": "26"}])
    task = Countdown(card="countdown-3to4", test_file=path)
    assert all(sorted(e["numbers"]) != [5, 10, 11] for e in task.draw(399, KEY))


def test_too_few_public_games_of_a_size(served):
    with pytest.raises(TaskError, match=r"99 games of 4 numbers.*task.numbers"):
        Countdown(card="countdown-3to4", numbers=4).draw(1, KEY)


def test_without_a_connection_it_says_what_to_download():
    with pytest.raises(TaskError, match=r"hf download Jiayi-Pan/Countdown-Tasks-3to4 .*task.file"):
        Countdown(card="countdown-3to4").draw(1, KEY)


# --- what is wrong


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"file": "a.jsonl", "card": "countdown-3to4"}, "both file and card"),
        ({"rewards": {"solvd": 1.0}}, "Did you mean 'solved'"),
        ({"empty_tag": 0.5}, "less than or equal to 0.1"),
        ({"numbers": 1}, "greater than or equal to 2"),
        ({"test_share": 0.0}, "greater than 0"),
        ({"parser": "loose"}, "d1_eval"),
    ],
)
def test_impossible_options_are_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        Countdown(**options)


def test_problems_of_files_are_known_before_training():
    path = jsonl([{"nums": [1, "x"], "target": 3}, {"nums": [1, 2], "target": 3}])
    [problem] = Countdown(file=path).check()
    assert "row 1" in problem and "no list of positive integers" in problem
    [problem] = Countdown(test_file=jsonl([{"a": 1}], "t.jsonl")).check()
    assert "has no column 'nums' or 'numbers' or 'input'; there are: a" in problem
    [problem] = Countdown(file="none.jsonl").check()
    assert "none.jsonl is not there" in problem
    one = jsonl([{"nums": [1, 2, 3], "target": 6}], "one.jsonl")
    [problem] = Countdown(file=one, test_file=one).check()
    assert "are held out; nothing is left to train on" in problem
    [problem] = Countdown(file=one).check()
    assert "held out" in problem


def test_nothing_is_read_when_it_is_built():
    assert Countdown(file="none.jsonl").file == "none.jsonl"
    assert _countdown_data.Public("countdown-3to4", 3).hub == "Jiayi-Pan/Countdown-Tasks-3to4"
