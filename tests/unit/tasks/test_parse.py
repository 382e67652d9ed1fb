"""What is an answer and what is not."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dllmzoo.tasks._parse import cut_digits, exact_grid, last_answer, written_grid

GRID = "1234341221434321"


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("<answer>a</answer>", "a"),
        ("<answer>\na\n</answer>", "\na\n"),
        ("<answer>a</answer> wait <answer>b</answer> done", "b"),
        ("<answer>a</answer> wait <answer>b", "a"),
        ("<answer>a <answer>b</answer>", "b"),
        ("<answer>a</answer> </answer>", "a"),
        ("<answer></answer>", ""),
        ("<answer>a", None),
        ("a</answer>", None),
        ("</answer>a<answer>", None),
        ("", None),
    ],
)
def test_the_last_closed_tag_answers(text, inside):
    assert last_answer(text) == inside


@pytest.mark.parametrize(
    "text",
    [
        GRID,
        f"\n {GRID} \n",
        "1234\n3412\n2143\n4321",
        "1234\r\n3412\r\n2143\r\n4321\r\n",
        "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1",
        "1,2,3,4\n3,4,1,2\n2,1,4,3\n4,3,2,1",
        "1, 2, 3, 4,\n3, 4, 1, 2,\n2, 1, 4, 3,\n4, 3, 2, 1",
        "| 1 | 2 | 3 | 4 |\n| 3 | 4 | 1 | 2 |\n| 2 | 1 | 4 | 3 |\n| 4 | 3 | 2 | 1 |",
        "1 2 | 3 4\n3 4 | 1 2\n\n2 1 | 4 3\n4 3 | 2 1",
        "1234|3412|2143|4321",
        "|1234|3412|2143|4321|",
        "1 2 3 4 | 3 4 1 2 | 2 1 4 3 | 4 3 2 1",
        "1234,3412,2143,4321",
        "1234, 3412, 2143, 4321",
        "1234 3412 2143 4321",
        "1234\t\n3412\n2143\n4321",
    ],
)
def test_sixteen_digits_or_four_rows_are_a_grid(text):
    assert written_grid(text) == GRID


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        GRID[:15],
        GRID + "1",
        GRID[:15] + "0",
        GRID[:15] + "5",
        "Row 1: 1234\nRow 2: 3412\nRow 3: 2143\nRow 4: 4321",
        f"The grid is {GRID}.",
        f"{GRID}.",
        "1234\n3412\n2143",
        "1234\n3412\n2143\n4321\n1234",
        "123\n43412\n2143\n4321",
        "12343412\n21434321",
        "1 2 3 4 3 4 1 2 2 1 4 3 4 3 2 1",
        "1234;3412;2143;4321",
        "1234-3412-2143-4321",
        "+----+\n1234\n3412\n2143\n4321",
        "١٢٣٤٣٤١٢٢١٤٣٤٣٢١",  # digits, but not these digits
    ],
)
def test_anything_else_is_no_grid(text):
    assert written_grid(text) is None


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (GRID, True),
        (GRID + "\n", False),
        (" " + GRID, False),
        (GRID[:15], False),
        (GRID + "1", False),
        (GRID[:15] + "0", False),
        (f"<answer>{GRID}</answer>", False),
    ],
)
def test_a_compact_answer_is_nothing_but_its_digits(text, right):
    assert exact_grid(text) == (text if right else None)


def test_the_released_reading_cuts_and_fills():
    assert cut_digits("Row 1: 12") == "112" + "0" * 13
    assert cut_digits(GRID + "99") == GRID
    assert cut_digits("no digits") is None


READERS = (last_answer, written_grid, exact_grid, cut_digits)
PIECES = [
    "<answer>",
    "</answer>",
    "1234",
    GRID,
    "\n",
    " ",
    "|",
    ",",
    "0",
    "7",
    "Row",
    "\u0663",
    "²",
]


@given(st.text())
@example("<answer><answer></answer>")
def test_no_text_raises(text):
    for read in READERS:
        found = read(text)
        assert found is None or read is last_answer or len(found) == 16


def test_ten_thousand_random_strings_never_raise():
    draw = random.Random(0)
    for _ in range(10_000):
        text = "".join(draw.choices(PIECES, k=draw.randrange(12)))
        inside = last_answer(text)
        for grid in (exact_grid(text), written_grid(text), written_grid(inside or "")):
            assert grid is None or (len(grid) == 16 and set(grid) <= set("1234"))
        assert cut_digits(text) is None or len(cut_digits(text)) == 16
