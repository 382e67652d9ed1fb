"""Countdown: reach a target with some numbers, each used once, and the four operations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Ratio
from dllmzoo.records import Example, Key, Rewards
from dllmzoo.tasks._arithmetic import Expression, read_expression
from dllmzoo.tasks._boxed import last_boxed
from dllmzoo.tasks._countdown_data import Public, given_games
from dllmzoo.tasks._countdown_games import Game, distinct, games, held_out, same_numbers, solve
from dllmzoo.tasks._epochs import epoch_positions
from dllmzoo.tasks._parse import last_answer
from dllmzoo.tasks._question_prompts import PREFILL
from dllmzoo.tasks._released_countdown import released_score
from dllmzoo.tasks._rewards import OnError, checked_weights, score
from dllmzoo.zoo import TASKS

COMPONENTS = ("expression", "solved", "expression_released")
ATTEMPT = 0.1
"""Reward of an answer that is there but wrong."""

RULES = """\
Write an arithmetic expression whose value is the target.
Use every one of the numbers exactly once, and only + - * / and parentheses.
Think it through between <reasoning> and </reasoning>. Then write the expression alone, without an \
equals sign, between <answer> and </answer>. For the numbers 2, 3, 4 and the target 5:
<answer>
2*4-3
</answer>
"""


def _known(weights: dict[str, float]) -> dict[str, float]:
    return checked_weights(weights, COMPONENTS)


@TASKS.register("countdown")
@dataclass(frozen=True)
class Countdown:
    r"""Countdown games: generated, from the public training set, or from files.

    Games are split by their numbers: none whose numbers are tested, in whatever order and with
    whatever target, is trained on. Answers are read by a parser of four operations over exact
    fractions; nothing is executed, so `2**4-3` is no answer and `99**99**99` costs nothing.

    With `test_file` its games are tested, and training keeps off their numbers. With `file` alone
    its games are divided as generated ones are; `card` alone tests the last 500 games of the
    public set after a shuffle with seed 42, as d1 holds them out.

    Args:
        prompt_style: `chat`: a message with the rules; the expression stands in the last answer
            tag. `text`: the same as plain text. `d1_eval`: `chat` with the answer begun by
            the prompt. `compact`: `3,5,2=16?`, and the whole answer is the expression, for small
            models over the characters `0123456789,=?+-*/()`.
        rewards: component -> weight. `expression`: 1 if the target is reached, 0.1 for another
            answer, 0 for none; `solved`: 1 or 0; `expression_released`: as d1 scores, what
            Python's `eval` makes of it, powers, `//` and decimals included.
        parser: `strict`, or `d1_eval`: the last `\boxed{}` if there is one, and only what stands
            before an equals sign.
        empty_tag: reward in [0, 0.1] of an empty answer in `expression`.
        unary_minus: whether a minus may stand in front of a number or a parenthesis.
        card: of registry/datasets with public games, say `countdown-3to4`; null generates.
        numbers: of a game, in [2, 6]; of public games those with so many are kept.
        largest: largest number of a generated game, >= 9.
        largest_target: largest target of a generated game, >= 9.
        test_share: share in (0, 1) of all sets of numbers that is held out.
        split_seed: of the split and of the generated test games.
        file: games to train on, JSONL, Parquet or CSV with the columns nums and target (or input
            and output, as in d1's file).
        test_file: the same to test on.
        on_error: what an error inside a reward does: stop, count as 0, or leave the text out.

    References:
        Zhao et al., 2025, d1 (arXiv:2504.12216): task, scale of `expression`. Differs from it in:
        exact values, four operations, an empty answer is none, a split by numbers.
    """

    prompt_style: Literal["compact", "chat", "text", "d1_eval"] = "chat"
    rewards: Annotated[dict[str, float], AfterValidator(_known)] = field(
        default_factory=lambda: {"expression": 1.0}
    )
    parser: Literal["strict", "d1_eval"] = "strict"
    empty_tag: Annotated[float, Field(ge=0, le=0.1)] = 0.0
    unary_minus: bool = False
    card: str | None = None
    numbers: Annotated[int, Field(ge=2, le=6)] = 3
    largest: Annotated[int, Field(ge=9)] = 100
    largest_target: Annotated[int, Field(ge=9)] = 100
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    split_seed: int = 0
    file: str | None = None
    test_file: str | None = None
    on_error: OnError = "raise"

    primary: ClassVar[str] = "solved_rate"

    def __post_init__(self) -> None:
        """Check what excludes each other."""
        if self.file is not None and self.card is not None:
            raise ValueError("both file and card are given; name one source of training games")

    def draw(self, num: int, key: Key) -> list[Example]:
        """Training games of a round; given ones are gone through in shuffled epochs."""
        if (rows := self._training_rows) is not None:
            return [rows[i] for i in epoch_positions(len(rows), num, key)]
        return list(islice(self._generated(key, held=False), num))

    def test(self, num: int) -> list[Example]:
        """The first `num` held-out games, all different; fewer if there are fewer."""
        if (rows := self._test_rows) is not None:
            return list(rows[:num])
        return list(distinct(self._generated(Key(self.split_seed, 0, "countdown_test"), True), num))

    def prompt(self, example: Example) -> str | list[dict[str, str]]:
        """`3,5,2=16?`, or the rules with numbers and target last."""
        listed = ", ".join(map(str, example["numbers"]))
        if self.prompt_style == "compact":
            return f"{listed.replace(' ', '')}={example['target']}?"
        text = f"{RULES}Numbers: {listed}\nTarget: {example['target']}"
        if self.prompt_style == "text":
            return f"{text}\n"
        user = {"role": "user", "content": text}
        begun = [{"role": "assistant", "content": PREFILL}]
        return [user, *(begun if self.prompt_style == "d1_eval" else [])]

    def answer(self, example: Example, key: Key, sample: int) -> str:
        """A solution as an answer: the one a game was made with, else one that is searched."""
        found = example.get("solution") or solve(example["numbers"], example["target"])
        if found is None:
            raise TaskError(
                f"the game {list(example['numbers'])} -> {example['target']} has no solution, so "
                f"none can be imitated"
            )
        return found if self.prompt_style == "compact" else f"<answer>\n{found}\n</answer>"

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """Weighted components of X texts; text x answers example x."""
        functions = {
            "expression": self._expression,
            "solved": self._solved,
            "expression_released": self._expression_released,
        }
        source = self.file or self.test_file or "countdown"
        return score(functions, self.rewards, texts, examples, self.on_error, source)

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Rates of solved games, of readable expressions, and of those with the right numbers."""
        read = [self.read(text) for text in texts]
        pairs, one = list(zip(read, examples, strict=True)), [1.0] * len(texts)
        return {
            "solved_rate": Ratio([float(_reached(x, e)) for x, e in pairs], one),
            "parse_rate": Ratio([float(x is not None) for x in read], one),
            "numbers_right_rate": Ratio([float(_right_numbers(x, e)) for x, e in pairs], one),
        }

    def read(self, text: str) -> Expression | None:
        """The answered expression; None = parse failure. Rewards and metrics."""
        inside = self._inside(text)
        if inside is None:
            return None
        return read_expression(inside, unary_minus=self.unary_minus)

    def check(self) -> list[str]:
        """Problems of the files, known before training; nothing is fetched from the hub."""
        problems = []
        for path in (self.file, self.test_file):
            try:
                if path is not None:
                    given_games(path)
            except TaskError as error:
                problems.append(str(error))
        if not problems and self.card is None:
            try:
                _ = self._training_rows, self._test_rows
            except TaskError as error:
                problems.append(str(error))
        return problems

    @property
    def hub(self) -> str | None:
        """The data set that is fetched at the first example; None without `card`."""
        return None if self.card is None else self._public.hub

    def _inside(self, text: str) -> str | None:
        """Where the expression should stand; None = there is no such place."""
        if self.prompt_style == "compact":
            inside = text
        else:
            box = last_boxed(text) if self.parser == "d1_eval" else None
            inside = last_answer(text) if box is None else box
        if inside is not None and self.parser == "d1_eval":
            inside = inside.partition("=")[0]
        return inside

    def _expression(self, texts: Sequence[str], examples: Sequence[Example]) -> list[float]:
        grades = []
        for text, example in zip(texts, examples, strict=True):
            inside = self._inside(text)
            if inside is None or not inside.strip():
                grades.append(0.0 if inside is None else self.empty_tag)
            else:
                grades.append(1.0 if _reached(self.read(text), example) else ATTEMPT)
        return grades

    def _solved(self, texts: Sequence[str], examples: Sequence[Example]) -> list[float]:
        pairs = zip(texts, examples, strict=True)
        return [float(_reached(self.read(text), example)) for text, example in pairs]

    def _expression_released(
        self, texts: Sequence[str], examples: Sequence[Example]
    ) -> list[float]:
        bare = self.prompt_style == "compact"
        return [
            released_score(f"<answer>{text}</answer>" if bare else text, e["numbers"], e["target"])
            for text, e in zip(texts, examples, strict=True)
        ]

    def _generated(self, key: Key, held: bool) -> Iterator[Game]:
        """Endless games of one side."""

        def wanted(numbers: Sequence[int]) -> bool:
            return self._is_tested(numbers) is held

        return games(self.numbers, self.largest, self.largest_target, wanted, key.generator())

    def _is_tested(self, numbers: Sequence[int]) -> bool:
        if self._tested is not None:
            return tuple(sorted(numbers)) in self._tested
        return held_out(numbers, self.test_share, self.split_seed)

    @cached_property
    def _tested(self) -> frozenset[tuple[int, ...]] | None:
        """Numbers of given test games; None = the split decides."""
        if self.test_file is not None:
            return frozenset(map(same_numbers, given_games(self.test_file)))
        if self.card is not None:
            return frozenset(map(same_numbers, self._public.last))
        return None

    @cached_property
    def _training_rows(self) -> list[Game] | None:
        """Given games on the training side; None = generated."""
        if self.file is None and self.card is None:
            return None
        given = self._public.first if self.file is None else given_games(self.file)
        rows = [game for game in given if not self._is_tested(game["numbers"])]
        if not rows:
            raise TaskError(
                f"the numbers of every game of {self.file or self._public.hub} are held out; "
                f"nothing is left to train on"
            )
        return rows

    @cached_property
    def _test_rows(self) -> list[Game] | None:
        """Given games on the test side; None = generated."""
        if self.test_file is not None:
            return given_games(self.test_file)
        if self.card is not None:
            return self._public.last
        if self.file is None:
            return None
        rows = [game for game in given_games(self.file) if self._is_tested(game["numbers"])]
        if not rows:
            raise TaskError(
                f"no numbers of {self.file} are held out by test_share {self.test_share} and "
                f"split_seed {self.split_seed}; name a test_file"
            )
        return rows

    @cached_property
    def _public(self) -> Public:
        return Public(self.card or "", self.numbers)


def _right_numbers(read: Expression | None, example: Example) -> bool:
    return read is not None and sorted(read.numbers) == sorted(example["numbers"])


def _reached(read: Expression | None, example: Example) -> bool:
    """Whether each number is used once and the exact value is the target."""
    return read is not None and _right_numbers(read, example) and read.value == example["target"]
