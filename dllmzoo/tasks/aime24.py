"""AIME 2024: thirty problems whose result is an integer from 0 to 999."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Ratio
from dllmzoo.records import Example, Key, Rewards
from dllmzoo.tasks._epochs import epoch_positions
from dllmzoo.tasks._extract import Extracted, Which, formula_answer
from dllmzoo.tasks._maths_data import COLUMNS, TEXT, integer, integer_example
from dllmzoo.tasks._question_prompts import PromptStyle, asked, demonstration
from dllmzoo.tasks._questions import Questions, Side, same_question
from dllmzoo.tasks._rewards import OnError, checked_weights, score
from dllmzoo.zoo import TASKS

COMPONENTS = ("correct", "signed")


def _known(weights: dict[str, float]) -> dict[str, float]:
    return checked_weights(weights, COMPONENTS)


@TASKS.register("aime24", aliases=("aime",))
@dataclass(frozen=True)
class Aime24:
    r"""AIME 2024, to evaluate on: integers from 0 to 999, compared exactly.

    With 30 problems one of them is 3.3 points: report the mean over at least 8 samples of each.
    The result is the last `\boxed{}` of a text, else what its last answer tag holds. There is
    no public training data of this kind; a file may be named, or another task be trained on.

    Args:
        prompt_style: `boxed`: a message that asks for a boxed result; `chat`: one that asks for a
            reasoning block and a boxed result in an answer block; `text`: `chat` as plain text,
            for base models; `d1_eval`: `chat` with the answer begun by the prompt.
        rewards: component -> weight. `correct`: 1 if the integer is right; `signed`: 1 if it is,
            else -1.
        box: of several boxed results, which one counts.
        file: training data, JSONL, Parquet or CSV with a question (problem or question) and an
            answer from 0 to 999 (answer or ground_truth_answer).
        test_file: the same to test on; null takes the hub's, as the card aime24-test says.
            Problems of the test are never trained on.
        on_error: what an error inside a reward does: stop, count as 0, or leave the text out.
    """

    prompt_style: PromptStyle = "boxed"
    rewards: Annotated[dict[str, float], AfterValidator(_known)] = field(
        default_factory=lambda: {"correct": 1.0}
    )
    box: Which = "last"
    file: str | None = None
    test_file: str | None = None
    on_error: OnError = "raise"

    primary: ClassVar[str] = "solved_rate"

    def draw(self, num: int, key: Key) -> list[Example]:
        """Training problems of a round: its slice of the shuffled epochs of `file`."""
        if self.file is None:
            raise TaskError(
                "aime24 has no training data, it is a test of 30 problems: train on another task, "
                "say math500, or name problems with integer answers as task.file"
            )
        rows = self._questions.trained_on
        return [rows[i] for i in epoch_positions(len(rows), num, key)]

    def test(self, num: int) -> list[Example]:
        """The first `num` test problems, in the order of their source."""
        return self._questions.held_out[:num]

    def prompt(self, example: Example) -> str | list[dict[str, str]]:
        """The problem and how to answer it, as `prompt_style` says."""
        return asked(example["question"], self.prompt_style, formula=True)

    def answer(self, example: Example, key: Key, sample: int) -> str:
        """The data's solution in the form that the prompt asks for; nothing is drawn."""
        steps = str(example.get("solution") or "").strip()
        return demonstration(steps, example["answer"], self.prompt_style, formula=True)

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """Weighted components of X texts; text x answers example x."""
        functions = {"correct": self._correct, "signed": self._signed}
        source = self.file or self.test_file or "aime24"
        return score(functions, self.rewards, texts, examples, self.on_error, source)

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Rates of solved problems, of readable integers, and of where results were found."""
        one, found = [1.0] * len(texts), [self.extract(text) for text in texts]
        return {
            "solved_rate": Ratio(self._correct(texts, examples), one),
            "parse_rate": Ratio([float(integer(text) is not None) for text, _ in found], one),
        } | {
            f"extracted_by/{way}": Ratio([float(by == way) for _, by in found], one)
            for way in ("boxed", "tag", "nothing")
        }

    def extract(self, text: str) -> Extracted:
        """What a text gives as its result, and how that was found. Rewards and metrics."""
        return formula_answer(text, self.box)

    def check(self) -> list[str]:
        """Problems of named files, known before training; nothing is fetched from the hub."""
        return self._questions.problems()

    @property
    def hub(self) -> str | None:
        """The data set that is fetched at the first example; None if a file is named."""
        return self._questions.test.hub

    def _correct(self, texts: Sequence[str], examples: Sequence[Example]) -> list[float]:
        golds = [_gold(example) for example in examples]
        stated = [integer(self.extract(text)[0]) for text in texts]
        return [float(answer == gold) for answer, gold in zip(stated, golds, strict=True)]

    def _signed(self, texts: Sequence[str], examples: Sequence[Example]) -> list[float]:
        return [2 * right - 1 for right in self._correct(texts, examples)]

    @cached_property
    def _questions(self) -> Questions:
        return Questions(
            Side("file", self.file, None, "train", text_columns=TEXT),
            Side("test_file", self.test_file, "aime24-test", "train", text_columns=TEXT),
            integer_example,
            COLUMNS,
            same_question,
        )


def _gold(example: Example) -> int:
    gold = integer(str(example["answer"]))
    if gold is None:
        raise ValueError(f"the right answer {example['answer']!r} is no integer from 0 to 999")
    return gold
