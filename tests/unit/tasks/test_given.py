"""Answers that come with the prompts."""

import json
from collections import Counter
from pathlib import Path

import pytest

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.tasks._given import BLANK, spoilt
from dllmzoo.tasks._sudoku_grade import blank_cells, clues_kept, correct_cells
from dllmzoo.zoo import TASKS

PUZZLE, SOLUTION = "0234300221430021", "1234341221434321"
EXAMPLE = {"puzzle": PUZZLE, "solution": SOLUTION}
KEY = Key(0, 3, "prompts/given")
Sudoku, Records = TASKS.get("sudoku"), TASKS.get("records")


def wrong(grid):
    return blank_cells(EXAMPLE) - correct_cells(grid, EXAMPLE)


def test_a_spoilt_grid_has_one_to_all_blanks_wrong_and_every_clue_right():
    grids = [spoilt(EXAMPLE, KEY.generator(i)) for i in range(600)]
    assert all(clues_kept(grid, EXAMPLE) and set(grid) <= set("1234") for grid in grids)
    # 5 blanks: 1 to 5 wrong ones, each about 120 times of 600
    counts = Counter(map(wrong, grids))
    assert set(counts) == {1, 2, 3, 4, 5}
    assert all(80 < count < 160 for count in counts.values())
    assert spoilt({"puzzle": SOLUTION, "solution": SOLUTION}, KEY.generator(0)) == SOLUTION


def test_sudoku_gives_a_right_and_a_spoilt_solution_in_turn():
    task = Sudoku()
    answers = [task.given(EXAMPLE, KEY, sample) for sample in range(6)]
    assert [answer == SOLUTION for answer in answers] == [True, False] * 3
    assert answers == [Sudoku().given(EXAMPLE, KEY, sample) for sample in range(6)]
    assert task.given(EXAMPLE, Key(0, 4, "prompts/given"), 1) != answers[1]
    assert len({answers[1], answers[3], answers[5]}) > 1
    rewards = task.reward(answers, [EXAMPLE] * 6).total_X
    assert (rewards[::2] == 1).all() and (rewards[1::2] < 1).all()


def test_sudoku_gives_its_grid_with_blanks():
    text = Sudoku().given_blanks(EXAMPLE, KEY, 0)
    assert text == f"{BLANK}2343{BLANK}{BLANK}22143{BLANK}{BLANK}21"
    assert Sudoku().gives == {"answers", "blanks"}


def test_in_chat_the_grid_stands_in_its_answer_tag():
    task = Sudoku(prompt_style="chat")
    assert task.given(EXAMPLE, KEY, 0) == f"<answer>\n{SOLUTION}\n</answer>"
    assert task.read(task.given(EXAMPLE, KEY, 1)) != SOLUTION
    assert task.given_blanks(EXAMPLE, KEY, 0).startswith(f"<answer>\n{BLANK}2343")


@pytest.fixture
def records(tmp_path, monkeypatch):
    """A task of pairs and texts."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"question": f"{i}?", "gold": i, "better": f"yes {i}", "worse": i, "gap": "[MASK] and"}
        for i in range(8)
    ]

    def make(rows=rows, **options):
        Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Records(file="data.jsonl", prompt="question", answer="gold", **options)

    make.rows = rows
    return make


def test_records_give_a_column_after_the_other(records):
    task, row = records(answers=("better", "worse")), records.rows[3]
    assert task.answer_columns == ("better", "worse")
    assert [task.given(row, KEY, i) for i in range(4)] == ["yes 3", "3", "yes 3", "3"]
    assert task.gives == {"answers"} and task.check() == []
    assert Records(answer_columns=("a",)) == Records(answers=("a",))


def test_records_give_the_text_of_a_column_to_fill_in(records):
    task = records(infill="gap")
    assert task.given_blanks(records.rows[0], KEY, 5) == "[MASK] and"
    assert task.gives == {"blanks"}
    assert Records(infill_column="gap") == Records(infill="gap")


def test_records_say_what_is_missing(records):
    with pytest.raises(TaskError, match=r"stored answers need `task.answers`"):
        records().given(records.rows[0], KEY, 0)
    with pytest.raises(TaskError, match=r"filling blanks needs `task.infill`"):
        records().given_blanks(records.rows[0], KEY, 0)
    assert records().gives == frozenset()
    assert "has no column 'best' for the stored answers" in records(answers=("best",)).check()[0]
    assert "has no column 'hole' for the text to fill in" in records(infill="hole").check()[0]
    empty = [*records.rows[:4], {**records.rows[4], "worse": None}]
    task = records(empty, answers=("better", "worse"))
    with pytest.raises(TaskError, match="has no 'worse'"):
        task.given(empty[4], KEY, 1)


def test_numbers_of_a_csv_stay_as_they_are_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("question,gold,good,bad\na,1,007,1.50\nb,2,008,2.50\n")
    task = Records(file="data.csv", prompt="question", answer="gold", answers=("good", "bad"))
    rows = sorted(task.draw(1, KEY) + task.test(1), key=lambda row: row["question"])
    assert [task.given(rows[0], KEY, sample) for sample in (0, 1)] == ["007", "1.50"]
