"""AIME 2024: thirty problems whose result is an integer from 0 to 999."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Ratio
from dllmzoo.records import Example, Key
from dllmzoo.tasks._extract import Extracted, Which, formula_answer
from dllmzoo.tasks._maths_data import COLUMNS, FORMULA_WAYS, TEXT, integer, integer_example
from dllmzoo.tasks._question_prompts import PromptStyle
from dllmzoo.tasks._question_task import QuestionTask
from dllmzoo.tasks._questions import Questions, Side, same_question
from dllmzoo.tasks._rewards import OnError, RewardFunction, checked_weights
from dllmzoo.zoo import TASKS

COMPONENTS = ("correct", "signed")


def _known(weights: dict[str, float]) -> dict[str, float]:
    return checked_weights(weights, COMPONENTS)


@TASKS.register("aime24", aliases=("aime",))
@dataclass(frozen=True)
class Aime24(QuestionTask):
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

    data_name: ClassVar[str] = "aime24"
    formula: ClassVar[bool] = True
    ways: ClassVar[tuple[str, ...]] = FORMULA_WAYS

    def draw(self, num: int, key: Key) -> list[Example]:
        """Training problems of a round: its slice of the shuffled epochs of `file`."""
        if problems := self.problems("rl"):
            raise TaskError(problems[0])
        return super().draw(num, key)

    def problems(self, stage: str) -> list[str]:
        """There is nothing to train on unless a file is named, whatever the stage."""
        if self.file is not None:
            return []
        return [
            "aime24 has no training data, it is a test of 30 problems: train on another task, "
            "say math500, or name problems with integer answers as task.file"
        ]

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Rates of solved problems, of readable integers, and of where results were found."""
        one, found = [1.0] * len(texts), [self.extract(text) for text in texts]
        return {
            "solved_rate": Ratio(self._correct(texts, examples), one),
            "parse_rate": Ratio([float(integer(text) is not None) for text, _ in found], one),
        } | self._extracted_by(found)

    def extract(self, text: str) -> Extracted:
        """What a text gives as its result, and how that was found. Rewards and metrics."""
        return formula_answer(text, self.box)

    @property
    def hub(self) -> str | None:
        """The data set that is fetched at the first example; None if a file is named."""
        return self._questions.test.hub

    @property
    def _functions(self) -> dict[str, RewardFunction]:
        return {"correct": self._correct, "signed": self._signed}

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
