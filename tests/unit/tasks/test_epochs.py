"""Draws without replacement, from the key alone."""

from itertools import pairwise

import pytest

from dllmzoo.records import Key
from dllmzoo.tasks._epochs import epoch_positions


def rounds(size, num, count, seed=0):
    keys = [Key(seed, r, "prompts") for r in range(count)]
    return [epoch_positions(size, num, key) for key in keys]


@pytest.mark.parametrize(("size", "num"), [(10, 4), (7, 7), (3, 8), (1, 5), (12, 1)])
def test_every_item_comes_once_an_epoch(size, num):
    row = [i for part in rounds(size, num, 30) for i in part]
    assert len(row) == 30 * num
    for start in range(0, len(row) - size + 1, size):
        assert sorted(row[start : start + size]) == list(range(size))


def test_epochs_are_shuffled_anew():
    epochs = rounds(20, 20, 4)
    assert all(first != second for first, second in pairwise(epochs))
    assert epochs[0] != list(range(20))


def test_a_round_needs_no_round_before_it():
    assert epoch_positions(10, 4, Key(0, 17, "prompts")) == rounds(10, 4, 18)[17]
    assert rounds(10, 4, 3) != rounds(10, 4, 3, seed=1)


def test_nothing_asked_gives_nothing():
    assert epoch_positions(10, 0, Key(0, 3, "prompts")) == []
