"""What tasks share whose examples are rows of data: they are drawn epoch after epoch."""

from __future__ import annotations

from collections.abc import Sequence

from dllmzoo.records import Example, Key
from dllmzoo.tasks._epochs import epoch_positions


class RowsTask:
    """A task with `training_rows` and `test_rows`; neither is read before it is asked for."""

    def training_rows(self) -> Sequence[Example]:
        """All rows to train on."""
        raise NotImplementedError

    def test_rows(self) -> Sequence[Example]:
        """All rows to test on, in the order of their source."""
        raise NotImplementedError

    def draw(self, num: int, key: Key) -> list[Example]:
        """Training rows of a round: its slice of the shuffled epochs."""
        rows = self.training_rows()
        return [rows[i] for i in epoch_positions(len(rows), num, key)]

    def test(self, num: int) -> list[Example]:
        """The first `num` rows of the test."""
        return list(self.test_rows()[:num])
