"""Generated puzzles have one solution and the asked number of blanks."""

from collections import Counter
from itertools import islice

import pytest
import torch

from dllmzoo.tasks._grids import GRIDS, count_puzzles, count_solutions
from dllmzoo.tasks._puzzles import distinct_puzzles, puzzles


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("blanks", [(1, 1), (4, 8), (8, 8), (11, 12), (12, 12), (1, 12)])
def test_every_puzzle_has_its_solution_alone(blanks):
    for example in islice(puzzles(GRIDS, blanks, seeded()), 60):
        puzzle, solution = example["puzzle"], example["solution"]
        assert count_solutions(puzzle) == 1
        assert all(p in ("0", d) for p, d in zip(puzzle, solution, strict=True))
        assert blanks[0] <= puzzle.count("0") <= blanks[1]


def test_blanks_and_solutions_are_uniform():
    found = list(islice(puzzles(GRIDS[:3], (4, 8), seeded()), 1500))
    # 5 counts: 300 each, standard error sqrt(1500 * .2 * .8) = 15.5; 3 grids: 500 each, 18.3
    assert all(abs(n - 300) < 62 for n in Counter(e["puzzle"].count("0") for e in found).values())
    assert all(abs(n - 500) < 73 for n in Counter(e["solution"] for e in found).values())


def test_the_generator_decides():
    first = list(islice(puzzles(GRIDS, (4, 8), seeded(1)), 20))
    assert first == list(islice(puzzles(GRIDS, (4, 8), seeded(1)), 20))
    assert first != list(islice(puzzles(GRIDS, (4, 8), seeded(2)), 20))


def test_the_global_generator_is_not_touched():
    before = torch.get_rng_state()
    list(islice(puzzles(GRIDS, (4, 8), seeded()), 5))
    assert torch.equal(before, torch.get_rng_state())


def test_distinct_puzzles_stop_when_there_are_no_more():
    # one blank of one grid: 16 puzzles
    assert count_puzzles(GRIDS[0], 1, 1) == 16
    found = distinct_puzzles(GRIDS[:1], (1, 1), 1000, seeded())
    assert len({example["puzzle"] for example in found}) == len(found) == 16


def test_fewer_distinct_puzzles_are_a_prefix_of_more():
    more = distinct_puzzles(GRIDS, (8, 8), 60, seeded())
    assert distinct_puzzles(GRIDS, (8, 8), 25, seeded()) == more[:25]
