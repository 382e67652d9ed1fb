"""Conversations as demonstrations: supervised training on messages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, Field

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Ratio
from dllmzoo.records import Example, Key, Rewards
from dllmzoo.tasks._conversations import Messages, Turns, conversation, demonstrations, opening
from dllmzoo.tasks._questions import rows_of
from dllmzoo.tasks._rewards import score
from dllmzoo.tasks._rows_task import RowsTask
from dllmzoo.tasks._splits import shuffle_rank
from dllmzoo.tasks._tables import Table, read_file, read_hub, refuse_two_sources
from dllmzoo.zoo import TASKS

Placed = tuple[Messages, str]
"""A conversation, and where it stands in the data."""
NO_DATA = "the task chat has no data: give `file` (JSONL, CSV, Parquet) or `hub`"


@TASKS.register("chat")
@dataclass(frozen=True)
class Chat(RowsTask):
    """Conversations in `messages` form, from a file or the hub; made for `stage: sft`.

    The tokenizer's chat template renders them. Everything before an answer is its prompt, which
    is never masked; the answer of the assistant, with the end of its turn, is the target. A later
    turn is never in the view of an earlier one, since attention goes both ways: each answer is a
    row of its own. Demonstrations are drawn without replacement, epoch after epoch.

    Evaluation writes the answers of held-out rows. `exact_match` says little about long answers;
    `word_f1`, the overlap of words, says a bit more.

    Args:
        file: data, by its ending JSONL, JSON, CSV, TSV or Parquet (`.gz` may follow); relative to
            the current folder.
        hub: id of a data set of the hub instead of a file.
        subset: which configuration of `hub`.
        revision: of `hub`; name a commit to get the same data for ever.
        hub_split: split of `hub` to train on.
        messages_column: column with lists of {role, content}, or their JSON text; roles are
            system, user and assistant. Recipes write `messages: COLUMN`.
        prompt_column: column with a question, for data in two columns instead of messages; recipes
            write `prompt: COLUMN`.
        answer_column: column with its answer; recipes write `answer: COLUMN`.
        turns: which answers of a conversation are rows: `each`, or the `last` one only.
        test_file: held-out data; all other data are then trained on.
        test_split: held-out split of `hub`; the same.
        test_share: share in (0, 1) of the rows held out where neither is given; conversations
            that open alike stay on one side.
        split_seed: of that choice.
    """

    file: str | None = None
    hub: str | None = None
    subset: str | None = None
    revision: str | None = None
    hub_split: str = "train"
    messages_column: Annotated[
        str, Field(validation_alias=AliasChoices("messages", "messages_column"))
    ] = "messages"
    prompt_column: Annotated[
        str | None, Field(validation_alias=AliasChoices("prompt", "prompt_column"))
    ] = None
    answer_column: Annotated[
        str | None, Field(validation_alias=AliasChoices("answer", "answer_column"))
    ] = None
    turns: Turns = "each"
    test_file: str | None = None
    test_split: str | None = None
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    split_seed: int = 0

    primary: ClassVar[str] = "exact_match"
    rewards: ClassVar[dict[str, float]] = {"exact_match": 1.0}

    def __post_init__(self) -> None:
        """Check what excludes each other."""
        refuse_two_sources(self)
        if (self.prompt_column is None) != (self.answer_column is None):
            raise ValueError("data in two columns need both: prompt and answer")

    def training_rows(self) -> list[Example]:
        """All rows to train on; `at` says where each stands."""
        return self._sides[0]

    def test_rows(self) -> list[Example]:
        """All held-out rows: in file order, or in the order of the seeded choice."""
        return self._sides[1]

    def prompt(self, example: Example) -> Messages:
        """All messages before the answer."""
        return example["prompt"]

    def answer(self, example: Example, key: Key, sample: int) -> str:
        """What the assistant says; nothing is drawn."""
        return example["answer"]

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """1 for the very answer, white space around both passed over."""

        def exact_match(texts: Sequence[str], rows: Sequence[Example]) -> list[float]:
            pairs = zip(texts, rows, strict=True)
            return [float(text.strip() == row["answer"].strip()) for text, row in pairs]

        return score({"exact_match": exact_match}, self.rewards, texts, examples)

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """`exact_match`, and `word_f1`: the harmonic mean of shares of words in common."""
        ones = [1.0] * len(texts)
        exact = self.reward(texts, examples).total_X.tolist()
        pairs = zip(texts, examples, strict=True)
        overlap = [word_f1(text, example["answer"]) for text, example in pairs]
        return {"exact_match": Ratio(exact, ones), "word_f1": Ratio(overlap, ones)}

    def check(self) -> list[str]:
        """Problems of the files, known before training; nothing is fetched from the hub."""
        if self.file is None and self.hub is None:
            return [NO_DATA]
        problems = []
        for path in (self.file, self.test_file):
            try:
                if path is not None:
                    self._conversations(self._read(path))
            except TaskError as error:
                problems.append(str(error))
        return problems

    @cached_property
    def _sides(self) -> tuple[list[Example], list[Example]]:
        """Rows to train on and held-out rows."""
        if self.hub is not None:
            table = read_hub(self.hub, self.subset, self.hub_split, self.revision)
        elif self.file is not None:
            table = self._read(self.file)
        else:
            raise TaskError(NO_DATA)
        talks = self._conversations(table)
        if self.test_file is not None:
            return self._rows(talks), self._rows(self._conversations(self._read(self.test_file)))
        if self.test_split is not None:
            held = read_hub(self.hub or "", self.subset, self.test_split, self.revision)
            return self._rows(talks), self._rows(self._conversations(held))
        return self._divided(talks, table.source)

    def _divided(self, talks: list[Placed], source: str) -> tuple[list[Example], list[Example]]:
        alike: dict[str, list[Example]] = {}
        for turns, place in talks:
            rows = self._rows([(turns, place)])
            alike.setdefault(opening(turns), []).extend(rows)
        if len(alike) < 2:
            raise TaskError(
                f"all conversations of {source} open alike, so none can be held out; give test_file"
            )
        shuffled = sorted(alike, key=lambda name: shuffle_rank(self.split_seed, name))
        wanted = self.test_share * sum(map(len, alike.values()))
        held: list[str] = []
        for name in shuffled[:-1]:
            if held and sum(len(alike[each]) for each in held) >= wanted:
                break
            held.append(name)
        aside = set(held)
        training = [row for name, rows in alike.items() if name not in aside for row in rows]
        return training, [row for name in held for row in alike[name]]

    def _rows(self, talks: list[Placed]) -> list[Example]:
        return [
            {**row, "at": place}
            for turns, place in talks
            for row in demonstrations(turns, self.turns)
        ]

    def _conversations(self, table: Table) -> list[Placed]:
        """Every row of the data as a conversation, and where it stands.

        Raises:
            TaskError: a column is missing, or rows cannot be used; names them.
        """
        if self.prompt_column is None and self.messages_column not in table.columns:
            raise TaskError(
                f"{table.source} has no column {self.messages_column!r} with messages; there are: "
                f"{', '.join(table.columns)}. Name it as `task.messages`, or name two columns, a "
                f"question and its answer, as `task.prompt` and `task.answer`"
            )
        columns = [self.messages_column]
        if self.prompt_column is not None and self.answer_column is not None:
            columns = [self.prompt_column, self.answer_column]
        found = rows_of(table, self._conversation, [(name,) for name in columns])
        return [(row["messages"], table.place(i)) for i, row in enumerate(found)]

    def _conversation(self, row: Mapping[str, Any]) -> Example:
        if self.prompt_column is None or self.answer_column is None:
            return {"messages": conversation(row[self.messages_column])}
        pair = {"user": row[self.prompt_column], "assistant": row[self.answer_column]}
        turns = [{"role": role, "content": text} for role, text in pair.items()]
        return {"messages": conversation(turns)}

    def _read(self, path: str) -> Table:
        columns = (self.messages_column, self.prompt_column, self.answer_column)
        return read_file(path, text_columns=[name for name in columns if name is not None])


def word_f1(text: str, answer: str) -> float:
    """Words in common, each as often as both have it, as an F1 score in [0, 1].

    Example:
        >>> word_f1("the cat sat", "the cat")
        0.8
    """
    said, right = Counter(text.casefold().split()), Counter(answer.casefold().split())
    common = (said & right).total()
    return 2 * common / max(said.total() + right.total(), 1)
