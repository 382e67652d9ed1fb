"""Countdown games: made with a solution, split by their numbers, solved by search."""

from itertools import islice

import pytest

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.tasks._arithmetic import read_expression
from dllmzoo.tasks._countdown_games import (
    distinct,
    game_of,
    games,
    held_out,
    same_numbers,
    solve,
)


def made(count=3, largest=100, target=100, wanted=lambda numbers: True, seed=0):
    return games(count, largest, target, wanted, Key(seed, 0, "games").generator())


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_game_has_the_solution_it_comes_with(count):
    for game in islice(made(count, largest=25, target=60), 200):
        read = read_expression(game["solution"])
        assert read is not None and read.value == game["target"]
        assert sorted(read.numbers) == sorted(game["numbers"])
        assert len(game["numbers"]) == count
        assert all(1 <= number <= 25 for number in game["numbers"])
        assert 1 <= game["target"] <= 60


def test_all_operations_and_parentheses_occur():
    text = "".join(game["solution"] for game in islice(made(largest=12), 300))
    assert set("+-*/()") <= set(text)


def test_games_are_a_function_of_the_generator():
    first, second, other = (list(islice(made(seed=seed), 5)) for seed in (0, 0, 1))
    assert first == second != other


def test_only_wanted_numbers_are_used():
    found = islice(made(wanted=lambda numbers: sum(numbers) % 2 == 0), 50)
    assert all(sum(game["numbers"]) % 2 == 0 for game in found)


def test_where_there_is_no_game_the_search_ends():
    with pytest.raises(TaskError, match=r"no game of 2 numbers up to 3 .*task.largest"):
        next(made(2, largest=3, wanted=lambda numbers: False))


def test_distinct_games_differ_in_numbers_or_target_and_run_out():
    found = distinct(made(2, largest=3, target=9), 1000)
    names = {(same_numbers(game), game["target"]) for game in found}
    assert len(found) == len(names) < 100
    assert distinct(made(2, largest=3, target=9), 5) == found[:5]
    assert distinct(made(), 0) == []


def test_the_split_is_by_numbers_whatever_their_order():
    assert held_out([3, 5, 2], 0.5, 0) == held_out([2, 3, 5], 0.5, 0)
    sets = [(a, b, c) for a in range(1, 20) for b in range(a, 20) for c in range(b, 20)]
    held = {numbers for numbers in sets if held_out(numbers, 0.1, 0)}
    assert 0.07 < len(held) / len(sets) < 0.13
    assert held != {numbers for numbers in sets if held_out(numbers, 0.1, 1)}
    assert held < {numbers for numbers in sets if held_out(numbers, 0.3, 0)}


@pytest.mark.parametrize(
    ("numbers", "target"), [((2, 3, 4), 5), ((1, 3, 4, 6), 24), ((3, 3, 8, 8), 24), ((7, 7), 1)]
)
def test_a_solution_is_found(numbers, target):
    read = read_expression(solve(numbers, target) or "")
    assert read is not None and read.value == target and sorted(read.numbers) == sorted(numbers)


def test_a_game_without_a_solution_has_none():
    assert solve((2, 2), 7) is None
    assert solve((5,), 5) == "5"


@pytest.mark.parametrize(
    "row",
    [
        {"nums": [3, 5, 2], "target": 16}, {"numbers": (3, 5, 2), "target": "16"},
        {"input": "3,5,2", "output": "16"}, {"nums": "[3, 5, 2]", "target": 16},
        {"nums": "3 5 2", "target": " 16 "}, {"nums": None, "input": "3;5;2", "output": 16},
    ],
)  # fmt: skip
def test_rows_of_every_format_are_games(row):
    assert game_of(row) == {"numbers": [3, 5, 2], "target": 16}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"nums": None, "target": 1}, "no list of positive integers"),
        ({"nums": [1, "2"], "target": 1}, "no list"),
        ({"nums": [1, -2], "target": 1}, "no list"),
        ({"nums": [1.5, 2], "target": 1}, "no list"),
        ({"nums": "1, x", "target": 1}, "no list"),
        ({"nums": [5], "target": 5}, "fewer than two"),
        ({"nums": [5, 2], "target": None}, "the target None is no integer"),
        ({"nums": [5, 2], "target": "2.5"}, "no integer"),
    ],
)
def test_rows_that_are_no_games_say_why(row, said):
    with pytest.raises(ValueError, match=said):
        game_of(row)
