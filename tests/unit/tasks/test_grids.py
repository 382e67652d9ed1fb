"""The 288 grids and what a bitmask knows of a puzzle."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dllmzoo.tasks._grids import (
    GRIDS,
    count_puzzles,
    count_solutions,
    orbit,
    relabelled,
    solutions,
)


def follows_the_rules(grid):
    """Rows, columns and boxes by slicing: another way than the generator's."""
    rows = [grid[i : i + 4] for i in range(0, 16, 4)]
    columns = [grid[i::4] for i in range(4)]
    boxes = [grid[i : i + 2] + grid[i + 4 : i + 6] for i in (0, 2, 8, 10)]
    return all(sorted(unit) == list("1234") for unit in rows + columns + boxes)


def brute_force(puzzle):
    return [g for g in GRIDS if all(p in ("0", d) for p, d in zip(puzzle, g, strict=True))]


def test_there_are_288_different_grids_and_all_follow_the_rules():
    assert len(set(GRIDS)) == len(GRIDS) == 288
    assert all(map(follows_the_rules, GRIDS))
    assert list(GRIDS) == sorted(GRIDS)


@given(grid=st.sampled_from(GRIDS), blank=st.sets(st.integers(0, 15)))
def test_the_bitmask_counts_what_a_search_finds(grid, blank):
    puzzle = "".join("0" if i in blank else d for i, d in enumerate(grid))
    assert count_solutions(puzzle) == len(brute_force(puzzle))
    assert [g for i, g in enumerate(GRIDS) if solutions(puzzle) >> i & 1] == brute_force(puzzle)


def test_an_empty_puzzle_has_every_solution_and_a_contradiction_none():
    assert count_solutions("0" * 16) == 288
    assert count_solutions("11" + "0" * 14) == 0


def test_a_puzzle_with_two_solutions_is_seen():
    assert brute_force("0034341200434321") == ["1234341221434321", "2134341212434321"]
    assert count_solutions("0034341200434321") == 2


def test_renaming_digits_leaves_12_classes_of_24():
    assert sorted(Counter(map(relabelled, GRIDS)).values()) == [24] * 12


def test_all_symmetries_leave_two_kinds_of_96_and_192():
    assert sorted(Counter(map(orbit, GRIDS)).values()) == [96, 192]


def test_a_symmetry_never_leaves_the_kind():
    for grid in GRIDS[::17]:
        rows = [grid[i : i + 4] for i in range(0, 16, 4)]
        transposed = "".join(grid[i::4] for i in range(4))
        columns_swapped = "".join(row[1] + row[0] + row[2:] for row in rows)
        stacks_swapped = "".join(row[2:] + row[:2] for row in rows)
        for moved in (transposed, columns_swapped, stacks_swapped, relabelled(grid)):
            assert orbit(moved) == orbit(grid)


def test_puzzles_are_counted_by_their_blanks():
    # one blank: any of the 16 cells; three blanks: C(16, 3) = 560, all with one solution
    assert count_puzzles(GRIDS[0], 1, 1) == 16
    assert count_puzzles(GRIDS[0], 3, 3) == 560
    assert count_puzzles(GRIDS[0], 1, 3) == 16 + 120 + 560
    # of the 1820 sets of 4 clues, 12 fix a grid of one kind and 128 a grid of the other
    assert {count_puzzles(grid, 12, 12) for grid in GRIDS} == {12, 128}
    # 13 blanks: none
    assert {count_puzzles(grid, 13, 16) for grid in GRIDS} == {0}
