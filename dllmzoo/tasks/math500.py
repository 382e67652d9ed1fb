"""Competition maths with LaTeX results, compared as strings, numbers and formulas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from dllmzoo.protocols import Ratio
from dllmzoo.records import Example, Key, Rewards
from dllmzoo.tasks import _released
from dllmzoo.tasks._epochs import epoch_positions
from dllmzoo.tasks._extract import Extracted, Which, boxed_and_answer_tags, formula_answer
from dllmzoo.tasks._math_equal import Symbolic, same_result
from dllmzoo.tasks._maths_data import COLUMNS, TEXT, maths_example
from dllmzoo.tasks._question_prompts import PromptStyle, asked, demonstration
from dllmzoo.tasks._questions import Questions, Side, same_question
from dllmzoo.tasks._rewards import OnError, RewardFunction, checked_weights, score
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
class Math500:
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

    primary: ClassVar[str] = "solved_rate"

    def draw(self, num: int, key: Key) -> list[Example]:
        """Training problems of a round: its slice of the shuffled epochs."""
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
        source = self.file or self.test_file or "math500"
        return score(self._functions, self.rewards, texts, examples, self.on_error, source)

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
        } | {
            f"extracted_by/{way}": Ratio([float(by == way) for _, by in found], one)
            for way in ("boxed", "tag", "nothing")
        }

    def extract(self, text: str) -> Extracted:
        """What a text gives as its result, and how that was found. Rewards and metrics."""
        return formula_answer(text, self.box)

    def check(self) -> list[str]:
        """A missing library and problems of named files; nothing is fetched from the hub."""
        missing = missing_library() if self.symbolic == "math_verify" else None
        return [*([missing] if missing else []), *self._questions.problems()]

    @property
    def hub(self) -> str | None:
        """The data set that is fetched at the first example; None if files are named."""
        return self._questions.test.hub or self._questions.training.hub

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

        def against(judge: Callable[[str, Example], Any]) -> RewardFunction:
            return lambda texts, examples: [
                judge(text, example) for text, example in zip(texts, examples, strict=True)
            ]

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
