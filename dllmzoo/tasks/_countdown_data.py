"""Countdown games of files and of the public training set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import starmap

import numpy

from dllmzoo.errors import TaskError
from dllmzoo.tasks._countdown_games import NUMBERS, TARGET, Game, game_of
from dllmzoo.tasks._questions import Side, rows_of
from dllmzoo.tasks._tables import Table, read_file

HELD_BY_D1 = 500
D1_SEED = 42
COLUMNS = (NUMBERS, TARGET)


def given_games(path: str) -> list[Game]:
    """All games of a file.

    Raises:
        TaskError: the file or a column is missing, or rows are no games; names them.
    """
    return rows_of(read_file(path, text_columns=(*NUMBERS, *TARGET)), game_of, COLUMNS)


@dataclass(frozen=True)
class Public:
    """The games of a card that have `numbers` numbers, in the order in which d1 divides them."""

    card: str
    numbers: int

    @property
    def hub(self) -> str | None:
        """Its id on the hub."""
        return self._side.hub

    @property
    def first(self) -> list[Game]:
        """All but the last 500, which d1 trains on."""
        return self._shuffled[:-HELD_BY_D1]

    @property
    def last(self) -> list[Game]:
        """The last 500."""
        return self._shuffled[-HELD_BY_D1:]

    @cached_property
    def _side(self) -> Side:
        return Side("file", None, self.card, "train")

    @cached_property
    def _shuffled(self) -> list[Game]:
        """Games of so many numbers, shuffled as `datasets` does with seed 42."""
        table = self._side.read()
        kept = [game for game in self._games(table) if len(game["numbers"]) == self.numbers]
        if len(kept) <= HELD_BY_D1:
            raise TaskError(
                f"{table.source} has {len(kept)} games of {self.numbers} numbers, and the last "
                f"{HELD_BY_D1} are held out; set task.numbers to 3 or 4"
            )
        return [kept[i] for i in numpy.random.default_rng(D1_SEED).permutation(len(kept))]

    def _games(self, table: Table) -> list[Game]:
        columns = getattr(table.rows, "to_dict", None)
        if columns is None or not {"nums", "target"} <= set(table.columns):
            return rows_of(table, game_of, COLUMNS)
        whole = columns()  # column by column: a row at a time would take a minute
        pairs = zip(whole["nums"], whole["target"], strict=True)
        return list(starmap(_game, pairs))


def _game(numbers: list[int], target: int) -> Game:
    return {"numbers": list(numbers), "target": int(target)}
