"""Grade-school word problems, compared as exact numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from dllmzoo.protocols import Ratio
from dllmzoo.records import Example
from dllmzoo.tasks import _released
from dllmzoo.tasks._extract import WAYS, Extracted, Which, number_answer, well_formed
from dllmzoo.tasks._numbers import Percent, read_number
from dllmzoo.tasks._question_prompts import PromptStyle
from dllmzoo.tasks._question_task import QuestionTask, against, alone
from dllmzoo.tasks._questions import Questions, Side, question_of, same_question
from dllmzoo.tasks._rewards import OnError, RewardFunction, checked_weights
from dllmzoo.zoo import TASKS

COMPONENTS = (
    "correct", "signed", "format",
    "correctness_released", "int_released", "strict_format_released", "soft_format_released",
    "xmlcount_released", "xmlcount_spg_released", "espo_released",
)  # fmt: skip
CALCULATOR = re.compile(r"<<[^<>]*>>")
"""Notes of the data set for a calculator; they are no part of a solution."""


def _known(weights: dict[str, float]) -> dict[str, float]:
    return checked_weights(weights, COMPONENTS)


@TASKS.register("gsm8k")
@dataclass(frozen=True)
class Gsm8k(QuestionTask):
    r"""GSM8K word problems: 7473 to train on, 1319 to test.

    A result is looked for in one order, in training and in evaluation: `\boxed{}` inside the last
    answer tag, the text of that tag, the last `\boxed{}`, what follows the last `####`, what
    follows "answer is". Both sides are read by one function and compared as exact fractions: 1,000
    is 1000, 72.0 is 72, two numbers or bad digits are none.

    Args:
        prompt_style: `chat`: a message that asks for a reasoning and an answer block; `boxed`: one
            that asks for a boxed result; `text`: `chat` as plain text, for base models; `d1_eval`:
            d1's evaluation, a boxed result in the answer block, the answer begun by the prompt.
        rewards: component -> weight. `correct`: 1 if the number is right; `signed`: 1 if it is,
            else -1; `format`: 1 for one reasoning and one answer block and nothing else. As
            released by d1, faults included: `correctness_released` (2 for equal strings),
            `int_released`, `strict_format_released`, `soft_format_released` and
            `xmlcount_released` (up to 0.5 each; SPG's copy is `xmlcount_spg_released`);
            `espo_released`: 1 for an equal string after "The answer is".
        box: of several boxed results, which one counts; d1 takes the first.
        lenient: whether the last number of a text counts where nothing marks the result.
        percent: whether `50%` is the number 50, or the fraction 1/2.
        file: training data, JSONL, Parquet or CSV with the columns question and answer; null takes
            the hub's, as the card gsm8k-main says.
        test_file: the same to test on. Questions of the test are never trained on.
        on_error: what an error inside a reward does: stop, count as 0, or leave the text out.

    References:
        Cobbe et al., 2021, GSM8K (arXiv:2110.14168). Released rewards: Zhao et al., 2025, d1
        (arXiv:2504.12216).
    """

    prompt_style: PromptStyle = "chat"
    rewards: Annotated[dict[str, float], AfterValidator(_known)] = field(
        default_factory=lambda: {"correct": 1.0}
    )
    box: Which = "last"
    lenient: bool = False
    percent: Percent = "number"
    file: str | None = None
    test_file: str | None = None
    on_error: OnError = "raise"

    data_name: ClassVar[str] = "gsm8k"
    formula: ClassVar[bool] = False
    ways: ClassVar[tuple[str, ...]] = WAYS

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Rates of solved questions, of readable answers, and of where answers were found.

        `parse_rate` is the share of texts that state a single number; `extracted_by/...` are the
        shares of texts whose result was found in each way.
        """
        one, found = [1.0] * len(texts), [self.extract(text) for text in texts]
        numbers = [self._number(text) for text, _ in found]
        pairs = zip(texts, examples, strict=True)
        return {
            "solved_rate": Ratio([float(self._right(text, e)) for text, e in pairs], one),
            "parse_rate": Ratio([float(number is not None) for number in numbers], one),
        } | self._extracted_by(found)

    def extract(self, text: str) -> Extracted:
        """What a text gives as its result, and how that was found. Rewards and metrics."""
        return number_answer(text, self.box, self.lenient)

    def solution(self, written: str) -> str:
        """The steps without the notes for a calculator."""
        return CALCULATOR.sub("", written).strip()

    def _right(self, text: str, example: Example) -> bool:
        stated, gold = self._number(self.extract(text)[0]), self._number(str(example["answer"]))
        if gold is None:
            raise ValueError(f"the right answer {example['answer']!r} is no number")
        return stated is not None and stated == gold

    def _number(self, text: str | None) -> Any:
        return None if text is None else read_number(text, self.percent)

    @cached_property
    def _functions(self) -> dict[str, RewardFunction]:
        """Name -> function of texts and examples."""
        return {
            "correct": against(lambda text, e: float(self._right(text, e))),
            "signed": against(lambda text, e: 1.0 if self._right(text, e) else -1.0),
            "format": alone(lambda text: float(well_formed(text))),
            "correctness_released": against(
                lambda text, e: _released.correctness(text, e["answer"])
            ),
            "int_released": alone(_released.all_digits),
            "strict_format_released": alone(_released.strict_format),
            "soft_format_released": alone(_released.soft_format),
            "xmlcount_released": alone(_released.tag_counts),
            "xmlcount_spg_released": alone(_released.spg_tag_counts),
            "espo_released": against(lambda text, e: _released.espo_correctness(text, e["answer"])),
        }

    @cached_property
    def _questions(self) -> Questions:
        columns = ("question", "answer")
        return Questions(
            Side("file", self.file, "gsm8k-main", "train", "main", columns),
            Side("test_file", self.test_file, "gsm8k-main", "test", "main", columns),
            self._example,
            (("question",), ("answer",)),
            same_question,
        )

    def _example(self, row: Mapping[str, Any]) -> Example:
        """Question, solution and the number after `####`."""
        solution, marked, gold = str(row.get("answer") or "").rpartition("####")
        gold = gold.strip()
        if self._number(gold) is None:
            raise ValueError(f"the right answer {gold[-40:]!r} is no number")
        question = question_of(row, ("question",))
        return {
            "question": question,
            "solution": solution.strip() if marked else "",
            "answer": gold,
        }
