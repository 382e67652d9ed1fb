"""What tasks of questions with a right answer share: data, prompts, demonstrations, rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dllmzoo.protocols import Ratio
from dllmzoo.records import Example, Key, Rewards
from dllmzoo.tasks._question_prompts import PromptStyle, asked, demonstration
from dllmzoo.tasks._rewards import OnError, RewardFunction, score
from dllmzoo.tasks._rows_task import RowsTask

if TYPE_CHECKING:
    from dllmzoo.tasks._extract import Extracted

Judge = Callable[[str, Example], Any]
"""A reward of one text; what it raises or returns is explained in `_rewards.score`."""


class QuestionTask(RowsTask):
    """A task whose data are `Questions`; a subclass says how a result is found and compared.

    It has the fields `prompt_style`, `rewards`, `file`, `test_file` and `on_error`, the properties
    `_questions` and `_functions`, and the method `extract`.
    """

    data_name: ClassVar[str]
    formula: ClassVar[bool]
    """Whether the prompt asks for a box inside the answer block too."""
    ways: ClassVar[tuple[str, ...]]
    """How `extract` may find a result."""
    primary: ClassVar[str] = "solved_rate"
    overlaps: ClassVar[bool] = True

    if TYPE_CHECKING:
        prompt_style: PromptStyle
        rewards: dict[str, float]
        file: str | None
        test_file: str | None
        on_error: OnError
        _questions: Any  # `Questions`, a cached property of the subclass
        _functions: Any  # name -> RewardFunction, another

        def extract(self, text: str) -> Extracted: ...

    def training_rows(self) -> list[Example]:
        """All questions to train on."""
        return self._questions.trained_on

    def test_rows(self) -> list[Example]:
        """All questions to test on, in the order of their source."""
        return self._questions.held_out

    def prompt(self, example: Example) -> str | list[dict[str, str]]:
        """The question and how to answer it, as `prompt_style` says."""
        return asked(example["question"], self.prompt_style, formula=self.formula)

    def answer(self, example: Example, key: Key, sample: int) -> str:
        """The data's solution in the form that the prompt asks for; nothing is drawn."""
        steps = self.solution(str(example.get("solution") or ""))
        return demonstration(steps, example["answer"], self.prompt_style, formula=self.formula)

    def solution(self, written: str) -> str:
        """The steps of a demonstration, from the data's solution."""
        return written.strip()

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """Weighted components of X texts; text x answers example x."""
        source = self.file or self.test_file or self.data_name
        return score(self._functions, self.rewards, texts, examples, self.on_error, source)

    def check(self) -> list[str]:
        """Problems of named files, known before training; nothing is fetched from the hub."""
        return self._questions.problems()

    @property
    def hub(self) -> str | None:
        """The data set that is fetched at the first example; None if files are named."""
        return self._questions.test.hub or self._questions.training.hub

    def _extracted_by(self, found: Sequence[Extracted]) -> dict[str, Ratio]:
        """Shares of texts whose result was found in each way."""
        one = [1.0] * len(found)
        return {
            f"extracted_by/{way}": Ratio([float(by == way) for _, by in found], one)
            for way in self.ways
        }


def against(judge: Judge) -> RewardFunction:
    """A reward of each text and its example."""
    return lambda texts, examples: [
        judge(text, example) for text, example in zip(texts, examples, strict=True)
    ]


def alone(judge: Callable[[str], float]) -> RewardFunction:
    """A reward of each text, whatever its example."""
    return lambda texts, _: [judge(text) for text in texts]
