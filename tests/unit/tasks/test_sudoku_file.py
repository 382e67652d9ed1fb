"""The public CSV format of 4x4 Sudoku."""

from pathlib import Path

import pytest

from dllmzoo.errors import TaskError
from dllmzoo.tasks._sudoku_file import read_puzzles

GOOD = "0234300221430021,1234341221434321"


def written(*lines, header="Puzzle,Solution"):
    path = Path("puzzles.csv")
    path.write_text("\n".join((header, *lines)) + "\n")
    return str(path)


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_digits_stay_text_with_their_leading_zeros():
    assert read_puzzles(written(GOOD, "0034341200434321,1234341221434321")) == [
        {"puzzle": "0234300221430021", "solution": "1234341221434321"},
        {"puzzle": "0034341200434321", "solution": "1234341221434321"},
    ]


def test_further_columns_spaces_and_empty_lines_do_no_harm():
    path = written("7, 0234300221430021, 1234341221434321", "", header="id, Puzzle, Solution")
    assert len(read_puzzles(path)) == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("234300221430021,1234341221434321", "is not 16 digits 0-4 .were leading zeros lost"),
        ("0234300221430025,1234341221434321", "Puzzle '0234300221430025' is not 16 digits 0-4"),
        ("02343002214300211,1234341221434321", "is not 16 digits 0-4"),
        ("0234300221430021,1234341221434320", "Solution '1234341221434320' is not 16 digits 1-4"),
        ("0234300221430021,", "Solution '' is not 16 digits"),
        ("0000000000000000,1234123412341234", "repeats a digit"),
        ("2000000000000000,1234341221434321", "changes a clue"),
    ],
)
def test_a_bad_row_is_named_with_its_line(row, said):
    with pytest.raises(TaskError, match=f"puzzles.csv: line 4: .*{said}"):
        read_puzzles(written(GOOD, "", row, GOOD))


def test_many_bad_rows_are_counted():
    with pytest.raises(TaskError, match=r"line 2: .*line 6: .*; and 4 more"):
        read_puzzles(written(*["1,2"] * 9))


def test_a_missing_column_is_named():
    with pytest.raises(TaskError, match="no column 'Solution'; there are: Puzzle, Answer"):
        read_puzzles(written(GOOD, header="Puzzle,Answer"))


def test_a_file_of_empty_lines_holds_no_rows():
    with pytest.raises(TaskError, match="holds no rows"):
        read_puzzles(written("", ""))
