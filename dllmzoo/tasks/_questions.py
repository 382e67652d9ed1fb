"""Questions with a right answer, from a file of the user's or from a data set that a card names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from dllmzoo import catalogue
from dllmzoo.errors import TaskError
from dllmzoo.records import Example
from dllmzoo.tasks._tables import Table, read_file, read_hub

log = logging.getLogger("dllmzoo")

E = TypeVar("E", bound=Example)
SHOWN = 5
"""Bad rows that a message names one by one."""


@dataclass(frozen=True)
class Side:
    """Where one side of a task, training or test, comes from.

    Args:
        option: of the task that may name a file, `file` or `test_file`.
        file: that the user named; it is read instead of the hub.
        card: in registry/datasets; None = there is no public data of this side.
        split: of the card's data set.
        subset: its configuration.
        text_columns: columns of a CSV that stay text.
    """

    option: str
    file: str | None
    card: str | None
    split: str
    subset: str | None = None
    text_columns: tuple[str, ...] = ()

    @property
    def hub(self) -> str | None:
        """The hub id that will be read; None if a file is."""
        return None if self.file is not None or self.card is None else self._card["origin"]

    def read(self) -> Table:
        """All rows.

        Raises:
            TaskError: they cannot be had; says what to download and which option names it.
        """
        if self.file is not None:
            return read_file(self.file, text_columns=self.text_columns)
        if self.card is None:
            raise TaskError(f"there is no public data of this side; name a file as {self.option}")
        hub, revision = self._card["origin"], self._card["revision"]
        if revision is None:
            log.warning(
                f"the card {self.card} names no revision of {hub}, so the newest is read; note "
                f"which one it was, or download it once and name it as task.{self.option}"
            )
        try:
            return read_hub(hub, self.subset, self.split, revision)
        except TaskError as error:
            pinned = f" --revision {revision}" if revision else ""
            columns = ", ".join(self._card["columns"])
            part = f"{self.subset}/{self.split}" if self.subset else self.split
            raise TaskError(
                f"the data set {hub} ({part}) cannot be had: {error.__cause__}\n"
                f"    without a connection, fetch it elsewhere with `dllmzoo pull {self.card}` and "
                f"copy its folder to the same place below the current folder here; or with "
                f"`hf download {hub} --repo-type dataset{pinned} --local-dir DIR`, and name its "
                f"file of {part} as `task.{self.option}`; any JSONL, Parquet or CSV with the "
                f"columns {columns} will do"
            ) from error

    @cached_property
    def _card(self) -> dict[str, Any]:
        assert self.card is not None
        return catalogue.card("datasets", self.card)


@dataclass(frozen=True)
class Questions:
    """Both sides of a task as examples, nothing of the test among the training.

    Args:
        training: where training rows come from.
        test: where test rows come from.
        example: makes an example of a row; raises ValueError for one without a usable answer.
        columns: what each row needs, as groups of names of which one must be there.
        same: two examples with one value of this must not be on both sides.
    """

    training: Side
    test: Side
    example: Callable[[Mapping[str, Any]], Example]
    columns: tuple[tuple[str, ...], ...]
    same: Callable[[Example], object]

    @cached_property
    def held_out(self) -> list[Example]:
        """Test examples in the order of their source."""
        return self._examples(self.test.read())

    @cached_property
    def trained_on(self) -> list[Example]:
        """Training examples without those that are tested.

        Raises:
            TaskError: no data, or nothing left of it.
        """
        rows = self._examples(self.training.read())
        kept = self._untested(rows)
        if len(kept) < len(rows):
            log.warning(
                f"{len(rows) - len(kept)} of {len(rows)} training examples are in the test set "
                f"too and are left out"
            )
        if not kept:
            raise TaskError(
                "every training example is in the test set; nothing is left to train on"
            )
        return kept

    def problems(self) -> list[str]:
        """What is wrong with files that were named; nothing is fetched from the hub."""
        found = []
        for side in (self.training, self.test):
            try:
                if side.file is not None:
                    self._examples(side.read())
            except TaskError as error:
                found.append(str(error))
        return found

    def _untested(self, rows: Sequence[Example]) -> list[Example]:
        try:
            tested = {self.same(example) for example in self.held_out}
        except TaskError as error:
            if self.test.file is not None:
                raise
            log.warning(
                f"the test set cannot be read, so it is not known whether training data are in "
                f"it: {str(error).splitlines()[0]}"
            )
            return list(rows)
        return [example for example in rows if self.same(example) not in tested]

    def _examples(self, table: Table) -> list[Example]:
        return rows_of(table, self.example, self.columns)


def rows_of(
    table: Table,
    example: Callable[[Mapping[str, Any]], E],
    columns: Sequence[Sequence[str]],
) -> list[E]:
    """Examples of all rows.

    Args:
        table: the data.
        example: makes one of a row; raises ValueError for a row it cannot use.
        columns: what each row needs, as groups of names of which one must be there.

    Raises:
        TaskError: a column is missing, or rows cannot be used; names them.
    """
    for names in columns:
        if not set(names) & set(table.columns):
            raise TaskError(
                f"{table.source} has no column {' or '.join(map(repr, names))}; "
                f"there are: {', '.join(table.columns)}"
            )
    examples, problems = [], []
    for number, row in enumerate(table.rows, start=1):
        try:
            examples.append(example(row))
        except ValueError as error:
            problems.append(f"row {number}: {error}")
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise TaskError(f"{table.source}: {'; '.join(problems[:SHOWN])}{more}")
    return examples


def first_of(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first of these columns that the row has a value in; None if it has none."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def question_of(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The question of a row, as text.

    Raises:
        ValueError: it has none.
    """
    question = first_of(row, names)
    if not isinstance(question, str) or not question.strip():
        raise ValueError("no question")
    return question.strip()


def same_question(example: Example) -> str:
    """A question without its spacing and case: what tells two of them apart."""
    return "".join(str(example["question"]).split()).casefold()
