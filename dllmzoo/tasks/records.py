"""Your own data as a task: a file or a data set of the hub, and rewards by name."""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, AliasChoices, Field

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Ratio
from dllmzoo.records import VALUE, Example, Key, Rewards
from dllmzoo.tasks._epochs import epoch_positions
from dllmzoo.tasks._functions import FUNCTIONS, known_rewards, reward
from dllmzoo.tasks._rewards import OnError, RewardFunction, checked_weights, score
from dllmzoo.tasks._splits import shuffle_rank
from dllmzoo.tasks._tables import Table, read_file, read_hub, refuse_two_sources
from dllmzoo.zoo import TASKS

__all__ = ["Records", "reward"]

HINT = (
    ' One of your own is a function under @reward("NAME") (from dllmzoo.tasks.records import '
    "reward) in a file listed under `plugins:`."
)
ROUNDING = 1e-6
"""How far below `solved_at` a total may be: rewards are float32."""

COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "exact_match": lambda text, answer: text.strip() == answer,
    "contains": lambda text, answer: answer in text,
}
"""The built-in rewards: text and right answer (stripped, not empty) in, right or wrong out."""


def _known(weights: dict[str, float]) -> dict[str, float]:
    return checked_weights(weights, known_rewards(), HINT)


@TASKS.register("records")
@dataclass(frozen=True)
class Records:
    """Prompts and answers from a JSONL, CSV or Parquet file, or from the hub.

    Training records are drawn without replacement, epoch after epoch, each shuffled anew. Nothing
    is read before the first draw or `check`; then every record must have a prompt, and every
    column that a reward declares must be there.

    Args:
        file: training data, by its ending JSONL, JSON, CSV, TSV or Parquet (`.gz` may follow);
            relative to the current folder.
        hub: id of a data set of the hub instead of a file.
        subset: which configuration of `hub`.
        revision: of `hub`; name a commit to get the same data for ever.
        hub_split: split of `hub` to train on.
        prompt_column: column with the prompt, text or a list of messages with `role` and
            `content`; recipes write `prompt: COLUMN`.
        answer_column: column with the right answer, read by `exact_match`, `contains` and
            supervised training; recipes write `answer: COLUMN`, null if the data have none.
        answer_columns: columns with answers for the sampler `stored`, such as a better and a worse
            one; recipes write `answers: [COLUMN, COLUMN]`. Sample i of a round takes column i
            modulo their number, so let `train.group_size` be a multiple of it.
        infill_column: column with a text for the sampler `infill`, `[MASK]` or the tokenizer's own
            mask token standing for each blank token; recipes write `infill: COLUMN`.
        chat: True makes a text prompt one user message for the tokenizer's chat template;
            messages always go through it.
        rewards: name -> weight. `exact_match`: 1 if the text is the answer, white space around
            both passed over; `contains`: 1 if the answer stands in the text; a record whose
            answer is null or empty abstains. Others are functions of yours, `(texts, records) ->
            list[float | None]`, declared with `dllmzoo.tasks.records.reward`.
        test_file: held-out data; all training data are then trained on.
        test_split: held-out split of `hub`; the same.
        test_share: share in (0, 1) of the records held out where neither is given; records with
            one prompt stay on one side.
        split_seed: of that choice.
        solved_at: total reward from which on an answer counts as solved.
        on_error: what an error inside a reward does: stop, count as 0, or leave the text out.
    """

    file: str | None = None
    hub: str | None = None
    subset: str | None = None
    revision: str | None = None
    hub_split: str = "train"
    prompt_column: Annotated[
        str, Field(validation_alias=AliasChoices("prompt", "prompt_column"))
    ] = "prompt"
    answer_column: Annotated[
        str | None, Field(validation_alias=AliasChoices("answer", "answer_column"))
    ] = "answer"
    answer_columns: Annotated[
        tuple[str, ...], Field(validation_alias=AliasChoices("answers", "answer_columns"))
    ] = ()
    infill_column: Annotated[
        str | None, Field(validation_alias=AliasChoices("infill", "infill_column"))
    ] = None
    chat: bool = False
    rewards: Annotated[dict[str, float], AfterValidator(_known)] = field(
        default_factory=lambda: {"exact_match": 1.0}
    )
    test_file: str | None = None
    test_split: str | None = None
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    split_seed: int = 0
    solved_at: float = 1.0
    on_error: OnError = "raise"

    primary: ClassVar[str] = "solved_rate"

    def __post_init__(self) -> None:
        """Check what excludes each other."""
        refuse_two_sources(self)
        compared = [name for name in self.rewards if name in COMPARISONS]
        if self.answer_column is None and compared:
            raise ValueError(f"the reward {compared[0]!r} reads the right answer, but answer: null")

    def draw(self, num: int, key: Key) -> list[Example]:
        """The records of a round: its slice of the shuffled epochs."""
        rows = self._training
        return [rows[i] for i in epoch_positions(len(rows), num, key)]

    def test(self, num: int) -> list[Example]:
        """The first `num` held-out records: in file order, or in the order of the seeded choice."""
        rows = self._held_out
        return [rows[i] for i in range(min(num, len(rows)))]

    def prompt(self, example: Example) -> str | list[dict[str, str]]:
        """The prompt column as it is; `chat` turns text into a user message."""
        prompt = _prompt_of(example, self.prompt_column, self._source)
        if self.chat and isinstance(prompt, str):
            return [{"role": "user", "content": prompt}]
        return prompt

    def answer(self, example: Example, key: Key, sample: int) -> str:
        """The answer column as text; nothing is drawn."""
        if self.answer_column is None:
            raise TaskError("supervised training needs `task.answer`, the column to imitate")
        return self._text(example, self.answer_column)

    @property
    def gives(self) -> frozenset[str]:
        """What comes with a prompt: `answers`, `blanks`, both or nothing."""
        named = {"answers": bool(self.answer_columns), "blanks": self.infill_column is not None}
        return frozenset(kind for kind, there in named.items() if there)

    @property
    def overlaps(self) -> bool:
        """Whether all of its rewards may be called in another thread."""
        return all(name in COMPARISONS or FUNCTIONS[name].overlaps for name in self.rewards)

    def given(self, example: Example, key: Key, sample: int) -> str:
        """The stored answer of a row: column `sample` modulo the number of columns."""
        if not self.answer_columns:
            raise TaskError("stored answers need `task.answers`, the columns that hold them")
        return self._text(example, self.answer_columns[sample % len(self.answer_columns)])

    def given_blanks(self, example: Example, key: Key, sample: int) -> str:
        """The text of the infill column."""
        if self.infill_column is None:
            raise TaskError("filling blanks needs `task.infill`, the column with the texts")
        return self._text(example, self.infill_column)

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """Weighted components of X texts; text x answers example x."""
        functions = {name: self._function(name) for name in self.rewards}
        rewards = score(functions, self.rewards, texts, examples, self.on_error, self._source)
        self._recent.append((list(texts), list(examples), rewards))
        return rewards

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Solved rate, mean total reward, and the mean of each component as `reward/NAME`.

        `solved_rate` is the share of counted texts whose total is at least `solved_at`. What
        abstained or failed is in no mean.
        """
        rewards = self._remembered(texts, examples) or self.reward(texts, examples)
        counted = rewards.counted_X.float().tolist()
        solved_X = (rewards.total_X >= self.solved_at - ROUNDING) & rewards.counted_X
        metrics = {
            "solved_rate": Ratio(solved_X.float().tolist(), counted),
            "reward": Ratio(rewards.total_X.tolist(), counted),
        }
        valued_XC = (rewards.outcome_XC == VALUE).float()
        for c, name in enumerate(rewards.names):
            metrics[f"reward/{name}"] = Ratio(
                rewards.part_XC[:, c].tolist(), valued_XC[:, c].tolist()
            )
        return metrics

    def check(self) -> list[str]:
        """Problems of the files, known before training; nothing is fetched from the hub."""
        if self.file is None and self.hub is None:
            return [NO_DATA]
        problems = []
        try:
            if self.file is not None:
                _ = self._training
        except TaskError as error:
            problems.append(str(error))
        try:
            if self.test_file is not None:
                _ = self._held_out
        except TaskError as error:
            problems.append(str(error))
        return problems

    @cached_property
    def _recent(self) -> deque[tuple[list[str], list[Example], Rewards]]:
        """The last finals and the last guesses: metrics of a round need no second judgement."""
        return deque(maxlen=2)

    def _remembered(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards | None:
        for old_texts, old_examples, rewards in self._recent:
            if old_texts == list(texts) and len(old_examples) == len(examples):
                pairs = zip(old_examples, examples, strict=True)
                if all(old is new for old, new in pairs):
                    return rewards
        return None

    def _function(self, name: str) -> RewardFunction:
        if name not in COMPARISONS:
            return FUNCTIONS[name].function
        compare, column = COMPARISONS[name], self.answer_column or ""

        def compared(texts: Sequence[str], records: Sequence[Example]) -> list[float | None]:
            answers = [_answer_of(record, column) for record in records]
            return [
                float(compare(text, answer)) if answer else None
                for text, answer in zip(texts, answers, strict=True)
            ]

        return compared

    def _text(self, record: Example, column: str) -> str:
        """A column that must hold something, as text."""
        if record[column] is None:
            raise TaskError(f"a record of {self._source} has no {column!r}: {_shown(record)}")
        return str(record[column])

    @property
    def _source(self) -> str:
        return self.file or (f"the data set {self.hub}" if self.hub else "the data")

    @cached_property
    def _table(self) -> Table:
        """The training source, held-out records of `test_share` included."""
        if self.hub is not None:
            return self._checked(self._fetch(self.hub_split))
        if self.file is None:
            raise TaskError(NO_DATA)
        return self._checked(self._read(self.file))

    @cached_property
    def _training(self) -> Sequence[Example]:
        if self.test_file is not None or self.test_split is not None:
            return self._table.rows
        training, _ = self._sides
        return [self._table.rows[i] for i in training]

    @cached_property
    def _held_out(self) -> Sequence[Example]:
        if self.test_file is not None:
            return self._checked(self._read(self.test_file)).rows
        if self.test_split is not None:
            return self._checked(self._fetch(self.test_split)).rows
        _, held = self._sides
        return [self._table.rows[i] for i in held]

    @cached_property
    def _sides(self) -> tuple[list[int], list[int]]:
        """Positions of training and of held-out records, records of one prompt together."""
        alike: dict[str, list[int]] = {}
        for i, row in enumerate(self._table.rows):
            alike.setdefault(json.dumps(row[self.prompt_column], sort_keys=True), []).append(i)
        if len(alike) < 2:
            raise TaskError(
                f"{self._table.source} has one prompt only, so none can be held out; give test_file"
            )
        held: list[int] = []
        wanted = self.test_share * len(self._table.rows)
        shuffled = sorted(alike, key=lambda prompt: shuffle_rank(self.split_seed, prompt))
        for prompt in shuffled[:-1]:
            if held and len(held) >= wanted:
                break
            held += alike[prompt]
        return sorted(set(range(len(self._table.rows))) - set(held)), held

    def _read(self, path: str) -> Table:
        columns = (self.prompt_column, self.answer_column, self.infill_column)
        named = [*self.answer_columns, *(name for name in columns if name is not None)]
        return read_file(path, text_columns=named)

    def _fetch(self, split: str) -> Table:
        return read_hub(self.hub or "", self.subset, split, self.revision)

    def _checked(self, table: Table) -> Table:
        """The table, if it has every column that is needed and every record a prompt."""
        table.require(self.prompt_column, why=" for the prompt (`prompt`)")
        if self.answer_column is not None:
            why = " for the right answer (`answer`; null if there is none)"
            table.require(self.answer_column, why=why)
        table.require(*self.answer_columns, why=" for the stored answers (`answers`)")
        if self.infill_column is not None:
            table.require(self.infill_column, why=" for the text to fill in (`infill`)")
        for name in self.rewards:
            if name not in COMPARISONS:
                columns = FUNCTIONS[name].columns
                table.require(*columns, why=f", which the reward {name!r} reads")
        for row in table.rows:
            _prompt_of(row, self.prompt_column, table.source)
        return table


NO_DATA = "the task records has no data: give `file` (JSONL, CSV, Parquet) or `hub`"


def _prompt_of(record: Example, column: str, source: str) -> str | list[dict[str, str]]:
    """Text, or messages with nothing but role and content."""
    prompt = record[column]
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(prompt, Sequence) and prompt and all(map(_is_message, prompt)):
        return [{"role": each["role"], "content": each["content"]} for each in prompt]
    raise TaskError(
        f"the prompt of a record of {source} is neither text nor a list of messages with role and "
        f"content: {_shown(record)}"
    )


def _is_message(given: Any) -> bool:
    return isinstance(given, Mapping) and all(
        isinstance(given.get(name), str) for name in ("role", "content")
    )


def _answer_of(record: Example, column: str) -> str:
    """The right answer as text; empty where there is none."""
    given = record[column]
    return "" if given is None else str(given).strip()


def _shown(record: Example) -> str:
    text = json.dumps(dict(record), default=str, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."
