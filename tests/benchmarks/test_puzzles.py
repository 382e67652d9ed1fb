"""How long a round of Sudoku puzzles takes to make: far less than 20 ms."""

import pytest

from dllmzoo.records import Key
from dllmzoo.zoo import TASKS


@pytest.mark.parametrize("blanks", [(4, 8), (12, 12)], ids=["default", "fewest clues"])
def test_32_puzzles(benchmark, blanks):
    task = TASKS.get("sudoku")(blanks=blanks)
    drawn = benchmark.pedantic(task.draw, args=(32, Key(0, 0, "prompts")), rounds=20)
    assert len(drawn) == 32


def test_512_test_puzzles(benchmark):
    assert len(benchmark.pedantic(TASKS.get("sudoku")().test, args=(512,), rounds=5)) == 512
