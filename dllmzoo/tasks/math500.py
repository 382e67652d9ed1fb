"""Competition maths with LaTeX results, compared as strings, numbers and formulas."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from dllmzoo.protocols import Ratio
from dllmzoo.records import Example
from dllmzoo.tasks import _released
from dllmzoo.tasks._extract import Extracted, Which, boxed_and_answer_tags, formula_answer
from dllmzoo.tasks._math_equal import Symbolic, same_result
from dllmzoo.tasks._maths_data import COLUMNS, FORMULA_WAYS, TEXT, maths_example
from dllmzoo.tasks._question_prompts import PromptStyle
from dllmzoo.tasks._question_task import QuestionTask, against
from dllmzoo.tasks._questions import Questions, Side, same_question
from dllmzoo.tasks._rewards import OnError, RewardFunction, checked_weights
from dllmzoo.tasks._symbolic import missing_library
from dllmzoo.zoo import TASKS

COMPONENTS = (
    "correct", "signed", "boxed_and_answer_tags",
    "correctness_released", "boxed_and_answer_tags_released",
)  # fmt: skip


def _known(weights: dict[str, float]) -> dict[str, float]:
    return checked_weights(weights, COMPONENTS)


@TASKS.register("math500", aliases=("math",))
@dataclass(frozen=True)
class Math500(QuestionTask):
    r"""MATH problems: the training pool of d1 and its successors, MATH-500 to test.

    The result is the last `\boxed{}` of a text, else what its last answer tag holds, in training
    and in evaluation. It is right if it is spelled like the right one after the usual rewritings,
    if both are the same number, or if math-verify holds the two formulas for equal. That runs in
    a process of its own and is killed at `time_limit`; such texts are counted as timeouts.

    Args:
        prompt_style: `chat`: a message that asks for a reasoning block and a boxed result in an
            answer block; `boxed`: one that asks for a boxed result; `text`: `chat` as plain text,
            for base models; `d1_eval`: `chat` with the answer begun by the prompt.
        rewards: component -> weight. `correct`: 1 if the result is right; `signed`: 1 if it is,
            else -1; `boxed_and_answer_tags`: 0.25, and 0.5 more for an answer tag, 0.25 more for a
            box in it. As released by d1, faults included: `correctness_released` (2 for equal
            spelling) and `boxed_and_answer_tags_released` (no box is ever seen).
        box: of several boxed results, which one counts.
        symbolic: `math_verify` needs `pip install dllmzoo[math]`; `off` compares strings and
            numbers only.
        time_limit: seconds that math-verify may take for one answer, in (0, 60].
        file: training data, JSONL, Parquet or CSV with the columns problem and solution (or
            answer); null takes the hub's, as the card math-train says.
        test_file: the same to test on; null takes the card math500-test. Problems of the
            test are never trained on.
        on_error: what an error inside a reward does: stop, count as 0, or leave the text out.

    References:
        Hendrycks et al., 2021, MATH (arXiv:2103.03874). Released rewards: Zhao et al., 2025, d1
        (arXiv:2504.12216).
    """

    prompt_style: PromptStyle = "chat"
    rewards: Annotated[dict[str, float], AfterValidator(_known)] = field(
        default_factory=lambda: {"correct": 1.0}
    )
    box: Which = "last"
    symbolic: Symbolic = "math_verify"
    time_limit: Annotated[float, Field(gt=0, le=60)] = 2.0
    file: str | None = None
    test_file: str | None = None
    on_error: OnError = "raise"

    data_name: ClassVar[str] = "math500"
    formula: ClassVar[bool] = True
    ways: ClassVar[tuple[str, ...]] = FORMULA_WAYS

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Rates of solved problems, of texts with a result, of timeouts, and of where results were.

        A timeout is not solved, and counted in `timeout_rate`. `extracted_by/...` are the shares
        of texts whose result was found in each way.
        """
        one, found = [1.0] * len(texts), [self.extract(text) for text in texts]
        verdicts = [self._verdict(text, e) for text, e in zip(texts, examples, strict=True)]
        late = [isinstance(verdict, TimeoutError) for verdict in verdicts]
        return {
            "solved_rate": Ratio([float(verdict is True) for verdict in verdicts], one),
            "parse_rate": Ratio([float(bool(result)) for result, _ in found], one),
            "timeout_rate": Ratio([float(each) for each in late], one),
        } | self._extracted_by(found)

    def extract(self, text: str) -> Extracted:
        """What a text gives as its result, and how that was found. Rewards and metrics."""
        return formula_answer(text, self.box)

    def check(self) -> list[str]:
        """A missing library and problems of named files; nothing is fetched from the hub."""
        missing = missing_library() if self.symbolic == "math_verify" else None
        return [*([missing] if missing else []), *super().check()]

    def _verdict(self, text: str, example: Example) -> bool | TimeoutError:
        result, _ = self.extract(text)
        if result is None:
            return False
        try:
            return same_result(result, str(example["answer"]), self.symbolic, self.time_limit)
        except TimeoutError as late:
            return late

    @cached_property
    def _functions(self) -> dict[str, RewardFunction]:
        """Name -> function of texts and examples."""

        def judged(right: float, wrong: float) -> RewardFunction:
            def entry(text: str, example: Example) -> float | TimeoutError:
                verdict = self._verdict(text, example)
                return (
                    verdict if isinstance(verdict, TimeoutError) else (right if verdict else wrong)
                )

            return against(entry)

        def released(text: str, example: Example) -> float:
            gold = example.get("solution") or f"\\boxed{{{example['answer']}}}"
            return _released.math_correctness(text, gold)

        return {
            "correct": judged(1.0, 0.0),
            "signed": judged(1.0, -1.0),
            "boxed_and_answer_tags": against(lambda text, _: boxed_and_answer_tags(text)),
            "correctness_released": against(released),
            "boxed_and_answer_tags_released": against(
                lambda text, _: _released.boxed_and_answer_tags(text)
            ),
        }

    @cached_property
    def _questions(self) -> Questions:
        return Questions(
            Side("file", self.file, "math-train", "train", text_columns=TEXT),
            Side("test_file", self.test_file, "math500-test", "test", text_columns=TEXT),
            maths_example,
            COLUMNS,
            same_question,
        )
