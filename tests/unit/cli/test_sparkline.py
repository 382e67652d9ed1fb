"""Curves on a line of text."""

import io
import sys

import pytest

from dllmzoo.cli._sparkline import sparkline


@pytest.fixture
def screen(monkeypatch):
    """Standard output of an encoding."""

    def call(encoding):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))

    return call


def test_eight_heights_rise_from_the_lowest_to_the_highest(screen):
    screen("utf-8")
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5.0, -5.0]) == "█▁"


def test_a_terminal_without_blocks_gets_ascii(screen):
    screen("ascii")
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "_.-~=+*#"


def test_gaps_stay_where_nothing_was_measured(screen):
    screen("utf-8")
    assert sparkline([0.0, None, float("nan"), 1.0]) == "▁  █"
    assert sparkline([]) == "" and sparkline([None]) == ""


def test_equal_values_are_a_line_in_the_middle(screen):
    screen("utf-8")
    assert sparkline([2.0, 2.0, 2.0]) == "▄▄▄"


def test_more_values_than_columns_are_drawn_as_means(screen):
    screen("utf-8")
    # 0 0 1 1 3 3 in three columns: means 0, 1, 3, and 1/3 of the height is the third of eight
    assert sparkline([0, 0, 1, 1, 3, 3], width=3) == "▁▃█"
    assert len(sparkline(list(range(1000)), width=32)) == 32
