"""The Sudoku task: its data, prompts and demonstrations; rewards: test_sudoku_grade.py."""

import hashlib
import pickle
from collections import Counter
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.tasks._grids import count_solutions, orbit, relabelled
from dllmzoo.zoo import TASKS

Sudoku = TASKS.get("sudoku")
PUZZLE, SOLUTION = "0234300221430021", "1234341221434321"
EXAMPLE = {"puzzle": PUZZLE, "solution": SOLUTION}
AMBIGUOUS = {"puzzle": "0034341200434321", "solution": SOLUTION}
OTHER = "2134341212434321"
"""The second solution of the ambiguous puzzle."""
ALL = {"cells": 1.0, "cells_released": 1.0, "solved": 1.0}


def csv(path, *rows):
    path.write_text("Puzzle,Solution\n" + "".join(f"{p},{s}\n" for p, s in rows))
    return str(path)


# --- data


def test_training_puzzles_have_one_solution_and_the_asked_blanks():
    for example in Sudoku().draw(100, Key(0, 3, "prompts")):
        assert count_solutions(example["puzzle"]) == 1
        assert 4 <= example["puzzle"].count("0") <= 8


def test_a_round_depends_on_its_key_alone():
    task, key = Sudoku(), Key(0, 3, "prompts")
    expected = task.draw(16, key)
    task.draw(5, Key(0, 4, "prompts"))
    torch.manual_seed(99)
    assert Sudoku().draw(16, key) == task.draw(16, key) == expected
    assert task.draw(4, key) == expected[:4]
    others = [
        Key(1, 3, "prompts"),
        Key(0, 4, "prompts"),
        Key(0, 3, "more"),
        Key(0, 3, "prompts", 1),
    ]
    assert all(task.draw(16, other) != expected for other in others)


def test_the_test_list_is_fixed_distinct_and_a_prefix_of_longer_ones():
    task = Sudoku()
    test = task.test(1024)
    assert len({example["puzzle"] for example in test}) == 1024
    assert Sudoku().test(512) == test[:512]
    assert all(count_solutions(e["puzzle"]) == 1 and e["puzzle"].count("0") == 8 for e in test)
    assert replace(task, split_seed=1).test(10) != test[:10]
    # neither the training side nor the seed of a run moves it
    assert replace(task, blanks=(1, 12), careless=0.5).test(10) == test[:10]


def test_the_first_512_test_puzzles_never_change():
    # scores of shipped checkpoints are on these
    text = " ".join(example["puzzle"] for example in Sudoku().test(512))
    assert hashlib.sha256(text.encode()).hexdigest().startswith("d0fcb583430f49b7")


def test_there_are_no_more_test_puzzles_than_there_are():
    # one blank: 16 cells of 72 grids
    assert len(Sudoku(test_blanks=(1, 1)).test(2000)) == 72 * 16


@pytest.mark.parametrize(
    ("split", "kind"),
    [("by_solution", str), ("by_relabelling", relabelled), ("by_symmetry", orbit)],
)
@pytest.mark.parametrize("seed", [0, 5])
def test_no_test_solution_is_ever_drawn_in_training(split, kind, seed):
    task = Sudoku(split=split, split_seed=seed)
    held = {kind(example["solution"]) for example in task.test(400)}
    drawn = [e["solution"] for r in range(30) for e in task.draw(64, Key(seed, r, "prompts"))]
    assert held.isdisjoint(map(kind, drawn))
    assert len(set(drawn)) > 150


def test_building_reads_nothing():
    task = Sudoku(file="nowhere.csv", test_file="nowhere.csv")
    with pytest.raises(TaskError, match=r"nowhere.csv is not there"):
        task.draw(1, Key(0, 0, "prompts"))
    assert len(task.check()) == 2 and "nowhere.csv is not there" in task.check()[0]
    assert Sudoku().check() == []


def test_a_task_survives_pickling():
    task = Sudoku(careless=0.25)
    task.test(2)
    assert pickle.loads(pickle.dumps(task)) == task


# --- data of files


def test_a_test_file_is_the_test_list_and_training_keeps_off_its_solutions(tmp_path):
    rows = [(PUZZLE, SOLUTION), (AMBIGUOUS["puzzle"], SOLUTION), ("0" * 16, OTHER)]
    task = Sudoku(test_file=csv(tmp_path / "d1.csv", *rows))
    assert task.check() == []
    assert task.test(2) == [EXAMPLE, AMBIGUOUS]
    assert [e["puzzle"] for e in task.test(9)] == [PUZZLE, AMBIGUOUS["puzzle"], "0" * 16]
    drawn = {e["solution"] for e in task.draw(4000, Key(0, 0, "prompts"))}
    assert drawn.isdisjoint({SOLUTION, OTHER}) and len(drawn) == 286
    by_class = replace(task, split="by_relabelling").draw(500, Key(0, 0, "prompts"))
    closed = {relabelled(SOLUTION), relabelled(OTHER)}
    assert closed.isdisjoint(relabelled(e["solution"]) for e in by_class)


def test_a_training_file_is_divided_by_solution(tmp_path):
    generated = Sudoku(blanks=(8, 8)).draw(150, Key(0, 0, "prompts")) + Sudoku().test(50)
    path = csv(tmp_path / "all.csv", *[(e["puzzle"], e["solution"]) for e in generated])
    task = Sudoku(file=path)
    assert task.check() == []
    assert task.test(100) == generated[150:]
    epoch = [e for r in range(5) for e in task.draw(30, Key(0, r, "prompts"))]
    assert sorted(map(str, epoch)) == sorted(map(str, generated[:150]))


def test_rows_of_a_training_file_whose_solution_is_tested_are_left_out(tmp_path):
    train = csv(tmp_path / "train.csv", (PUZZLE, SOLUTION), ("0" * 16, OTHER))
    test = csv(tmp_path / "test.csv", (AMBIGUOUS["puzzle"], SOLUTION))
    task = Sudoku(file=train, test_file=test)
    assert {e["solution"] for e in task.draw(10, Key(0, 0, "prompts"))} == {OTHER}
    nothing = Sudoku(file=test, test_file=test)
    assert "nothing is left to train on" in nothing.check()[0]
    with pytest.raises(TaskError, match="nothing is left to train on"):
        nothing.draw(1, Key(0, 0, "prompts"))


def test_a_file_that_closes_every_class_leaves_nothing_to_generate_from(tmp_path):
    path = csv(tmp_path / "test.csv", ("0" * 16, SOLUTION), ("0" * 16, "1234341223414123"))
    assert "leave no grid to train on" in Sudoku(test_file=path, split="by_symmetry").check()[0]


def test_a_file_without_held_out_rows_asks_for_a_test_file(tmp_path):
    [example] = Sudoku().draw(1, Key(0, 0, "prompts"))
    path = csv(tmp_path / "train.csv", (example["puzzle"], example["solution"]))
    assert "name a test_file" in Sudoku(file=path).check()[0]


def test_bad_rows_are_known_before_training(tmp_path):
    path = csv(tmp_path / "bad.csv", (PUZZLE, SOLUTION), (PUZZLE[1:], SOLUTION))
    [problem] = Sudoku(test_file=path).check()
    assert "bad.csv: line 3: Puzzle '234300221430021' is not 16 digits" in problem


# --- options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"blanks": (4, 13)}, "fewer than 4 clues"),
        ({"test_blanks": (16, 16)}, "fewer than 4 clues"),
        ({"blanks": (0, 4)}, "greater than or equal to 1"),
        ({"blanks": (8, 4)}, "the fewest, 8, are more than the most, 4"),
        ({"rewards": {"solvd": 1.0}}, "no reward named 'solvd'. Did you mean 'solved'?"),
        ({"rewards": {"cells": 0.0, "solved": 0}}, "weight other than 0"),
        ({"rewards": {}}, "weight other than 0"),
        ({"careless": 1.5}, "less than or equal to 1"),
        ({"split": "by_puzzle"}, "by_solution"),
        ({"on_error": "ignore"}, "abstain"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_impossible_options_are_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        Sudoku(**options)


def test_integer_and_negative_weights_are_weights():
    task = Sudoku(rewards={"solved": 1, "cells": -0.5})
    # 8 of 8 cells: -.5 * 1 + 1 * 1
    assert task.reward([SOLUTION], [EXAMPLE]).total_X.tolist() == [0.5]


# --- prompts and demonstrations


def test_a_compact_prompt_is_the_puzzle_and_an_equals_sign():
    task = Sudoku()
    assert task.prompt(EXAMPLE) == "0234300221430021="
    assert task.answer(EXAMPLE, Key(0, 0, "answers"), 0) == SOLUTION


def test_a_chat_prompt_is_one_user_message_that_ends_with_the_puzzle():
    task = Sudoku(prompt_style="chat")
    [message] = task.prompt(EXAMPLE)
    assert message["role"] == "user"
    assert message["content"].endswith(PUZZLE)
    assert "<answer>" in message["content"]
    assert task.read(task.answer(EXAMPLE, Key(0, 0, "answers"), 0)) == SOLUTION


def test_d1_evaluates_with_the_answer_begun_by_the_prompt():
    user, begun = Sudoku(prompt_style="d1_eval").prompt(EXAMPLE)
    assert [user] == Sudoku(prompt_style="chat").prompt(EXAMPLE)
    assert begun == {"role": "assistant", "content": "<reasoning>"}


@pytest.mark.parametrize("style", ["compact", "chat"])
def test_every_demonstration_is_a_full_reward(style):
    task = Sudoku(prompt_style=style, rewards=ALL)
    examples = task.draw(20, Key(0, 0, "prompts"))
    texts = [task.answer(e, Key(0, 0, "answers"), i) for i, e in enumerate(examples)]
    assert task.reward(texts, examples).total_X.tolist() == [3.0] * 20


def test_careless_demonstrations_keep_clues_and_fill_blanks_at_random():
    task, key = Sudoku(careless=1.0), Key(0, 0, "answers")
    texts = [task.answer(EXAMPLE, key, sample) for sample in range(2000)]
    assert all(len(t) == 16 and set(t) <= set("1234") for t in texts)
    assert all(t[i] == c for t in texts for i, c in enumerate(PUZZLE) if c != "0")
    # each blank holds each digit in a quarter: 500 of 2000, standard error 19.4
    for cell in (i for i, c in enumerate(PUZZLE) if c == "0"):
        counts = Counter(t[cell] for t in texts)
        assert all(abs(counts[digit] - 500) < 85 for digit in "1234")


def test_the_share_of_careless_demonstrations_is_as_asked():
    task, key = Sudoku(careless=0.6), Key(0, 0, "answers")
    right = sum(task.answer(EXAMPLE, key, sample) == SOLUTION for sample in range(2000))
    # 40 % are right and 60 % * 4^-6 right by luck: 800, standard error 21.9
    assert abs(right - 800) < 90


def test_a_demonstration_depends_on_key_and_sample_alone():
    task = Sudoku(careless=1.0)
    texts = [task.answer(EXAMPLE, Key(0, 0, "answers"), sample) for sample in range(20)]
    again = [task.answer(EXAMPLE, Key(0, 0, "answers"), sample) for sample in reversed(range(20))]
    assert texts == again[::-1] and len(set(texts)) > 15
    assert task.answer(EXAMPLE, Key(0, 1, "answers"), 0) != texts[0]
