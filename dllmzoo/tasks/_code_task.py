"""What the code tasks have in common: programs are extracted, run in a sandbox, and counted."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Ratio
from dllmzoo.records import Example, Key, Rewards
from dllmzoo.sandbox import (
    Isolation,
    Limits,
    Sandbox,
    Verdict,
    shared,
)
from dllmzoo.tasks import _released
from dllmzoo.tasks._code_data import TEXT, Problems, Subset, program
from dllmzoo.tasks._code_extract import WAYS, Way, extracted, fenced_released, tree
from dllmzoo.tasks._code_prompts import CodePromptStyle, Messages, asked_code, code_demonstration
from dllmzoo.tasks._extract import well_formed
from dllmzoo.tasks._question_task import alone
from dllmzoo.tasks._questions import Side
from dllmzoo.tasks._rewards import OnError, RewardFunction, checked_weights, score
from dllmzoo.tasks._rows_task import RowsTask

CODE_COMPONENTS = (
    "passed", "all_passed", "format", "tags", "xmlcount_released", "block_in_answer_released",
    "fenced_released",
)  # fmt: skip
ARGS = "\n\nArgs:"
UNNAMED = (
    "answers of this task are programs that have to be run, and no `sandbox` is named: write "
    "`sandbox: bubblewrap` (recommended; `apt-get install bubblewrap`), which keeps them from the "
    "network, from your files and from your processes, or `sandbox: subprocess`, which only limits "
    "their time, memory, output and number of processes"
)


def known_code_rewards(weights: dict[str, float]) -> dict[str, float]:
    """The weights, if every component is one of code tasks."""
    return checked_weights(weights, CODE_COMPONENTS)


@dataclass(frozen=True)
class CodeTask(RowsTask):
    """Base of code tasks: a subclass says in `tested_on` where its test comes from.

    Args:
        prompt_style: `chat`: a message that asks for a reasoning block, and for a fenced program in
            an answer block; `fenced`: a system turn that asks for one final fenced block; `text`:
            `chat` as plain text, for base models; `d1_eval`: `chat` with the answer begun by the
            prompt.
        rewards: component -> weight. `passed`: share of the tests that pass; `all_passed`: 1 if all
            do; `format`: 1 for a fenced block that parses; `tags`: 1 for one reasoning and one
            answer block and nothing else. As released: EGSPO adds to `passed`
            `xmlcount_released` (up to 0.5) and `block_in_answer_released` (0.5); ESPO adds
            `fenced_released` (1, or 0.5 for a block that does not parse); DiffuCoder weighs
            `passed` 2.0 and `fenced_released` 0.5.
        sandbox: where programs run. `bubblewrap`: without network, home and sight of other
            processes, on a read-only system; `subprocess`: only limits. Null refuses to run.
        time_limit: seconds of wall time for each test, in (0, 600]; EGSPO gives 1, ESPO 5.
        memory_mb: MiB of address space of a process, >= 64.
        workers: programs run at once; null takes one for each core.
        file: training data, JSONL, Parquet or CSV in the columns of MBPP, HumanEval, KodCode or
            AceCode; null takes nine tenths of the pool that the card kodcode-light-rl-10k names.
        subset: of the training data; `hard` keeps what two models rarely solve, by the pass rates
            in AceCode's column `inferences`: the lowest fifth of the means, and of it the upper
            three fifths of the spreads; questions without the word "you" come twice, once with an
            instruction. The pool of ESPO, DiffuCoder and JustGRPO, about 21 thousand rows.
        test_file: the same to test on; null takes the public test. Problems of the test are never
            trained on.
        on_error: what an error inside a reward does: stop, count as 0, or leave the text out.
    """

    prompt_style: CodePromptStyle = "chat"
    rewards: Annotated[dict[str, float], AfterValidator(known_code_rewards)] = field(
        default_factory=lambda: {"passed": 1.0}
    )
    sandbox: Isolation | None = None
    time_limit: Annotated[float, Field(gt=0, le=600)] = 5.0
    memory_mb: Annotated[int, Field(ge=64)] = 1024
    workers: Annotated[int, Field(ge=1)] | None = None
    file: str | None = None
    subset: Subset = "all"
    test_file: str | None = None
    on_error: OnError = "raise"

    primary: ClassVar[str] = "solved_rate"
    overlaps: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """Explain the options above in the docstring of a subclass too, before its references."""
        said, own = inspect.getdoc(CodeTask) or "", inspect.cleandoc(cls.__doc__ or "")
        if own and ARGS not in own:
            head, section, tail = own.partition("\n\nReferences:")
            cls.__doc__ = f"{head}{said[said.index(ARGS) :]}{section}{tail}"

    def tested_on(self) -> Side | None:
        """The test; None takes the last tenth of what is trained on."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone: data and workers are each process's own."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    def training_rows(self) -> list[Example]:
        """All problems to train on."""
        return self._problems.trained_on

    def test_rows(self) -> list[Example]:
        """All problems to test on, in the order of their source."""
        return self._problems.held_out

    def prompt(self, example: Example) -> str | Messages:
        """The problem and how to answer it, as `prompt_style` says."""
        return asked_code(example, self.prompt_style)

    def answer(self, example: Example, key: Key, sample: int) -> str:
        """The data's program in the form that the prompt asks for; nothing is drawn.

        Raises:
            TaskError: the data hold none.
        """
        if not example["solution"]:
            raise TaskError(
                "the data hold tests but no programs, so there is nothing to imitate; name data "
                "with a column solution (or code)"
            )
        return code_demonstration(example["solution"], self.prompt_style)

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """Weighted components of X texts; text x answers example x."""
        source = self.file or self.test_file or type(self).__name__.lower()
        return score(self._functions, self.rewards, texts, examples, self.on_error, source)

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Rates of solved problems (pass@1), passed tests, programs, errors and timeouts.

        `solved_rate`: every test passed. `tests_passed_rate`: of all tests. `parse_rate`: texts
        with a program that is Python. `error_rate`, `timeout_rate`: texts with a test that was
        stopped by an exception or an early end, or by the time limit; a text may be in both.
        `extracted_by/...`: where programs were found.
        """
        one, found = [1.0] * len(texts), self._programs(texts, examples)
        verdicts = self._verdicts(texts, examples)
        passed = [float(sum(v.outcome == "pass" for v in each)) for each in verdicts]
        numbers = [float(len(each)) for each in verdicts]

        def any_of(outcome: str) -> Ratio:
            return Ratio([float(any(v.outcome == outcome for v in e)) for e in verdicts], one)

        return {
            "solved_rate": Ratio(
                [float(hits == number) for hits, number in zip(passed, numbers, strict=True)], one
            ),
            "tests_passed_rate": Ratio(passed, numbers),
            "parse_rate": Ratio(
                [float(code is not None and tree(code) is not None) for code, _ in found], one
            ),
            "error_rate": any_of("error"),
            "timeout_rate": any_of("timeout"),
        } | {
            f"extracted_by/{way}": Ratio([float(by == way) for _, by in found], one) for way in WAYS
        }

    def extract(self, text: str, example: Example) -> tuple[str | None, Way]:
        """The whole program of a text, and how it was found. Rewards and metrics."""
        code, way = extracted(text, str(example.get("prefix") or ""))
        return (None if code is None else program(code, example)), way

    def check(self) -> list[str]:
        """A sandbox that is not named or does not start; problems of named files."""
        return [*self._sandbox_problem(), *self._problems.problems()]

    @property
    def hub(self) -> str | None:
        """The data set that is fetched at the first example; None if files are named."""
        return self._problems.hub

    def _sandbox_problem(self) -> list[str]:
        try:
            self._sandbox.start()
        except TaskError as error:
            return [str(error)]
        return []

    def _programs(
        self, texts: Sequence[str], examples: Sequence[Example]
    ) -> list[tuple[str | None, Way]]:
        return [self.extract(text, e) for text, e in zip(texts, examples, strict=True)]

    def _verdicts(
        self, texts: Sequence[str], examples: Sequence[Example]
    ) -> list[tuple[Verdict, ...]]:
        """What came of every test of each text; a text without a program fails all of them."""
        programs = [code for code, _ in self._programs(texts, examples)]
        runs = [
            (code, example["suite"])
            for code, example in zip(programs, examples, strict=True)
            if code is not None
        ]
        verdicts = iter(self._sandbox.run(runs) if runs else ())
        nothing = Verdict("fail", "the text holds no program")
        return [
            (nothing,) * len(example["suite"].tests) if code is None else next(verdicts)
            for code, example in zip(programs, examples, strict=True)
        ]

    @cached_property
    def _sandbox(self) -> Sandbox:
        if self.sandbox is None:
            raise TaskError(UNNAMED)
        limits = Limits(seconds=self.time_limit, memory_mb=self.memory_mb)
        return shared(self.sandbox, limits, self.workers)

    @cached_property
    def _functions(self) -> dict[str, RewardFunction]:
        """Name -> function of texts and examples."""

        def tested(judge: Callable[[float], float]) -> RewardFunction:
            return lambda texts, examples: [
                _entry(each, judge) for each in self._verdicts(texts, examples)
            ]

        return {
            "passed": tested(float),
            "all_passed": tested(lambda share: float(share == 1)),
            "format": lambda texts, examples: [
                float(
                    code is not None and way in ("tag_fenced", "fenced") and tree(code) is not None
                )
                for code, way in self._programs(texts, examples)
            ],
            "tags": alone(lambda text: float(well_formed(text))),
            "xmlcount_released": alone(_released.tag_counts),
            "block_in_answer_released": alone(
                lambda text: 0.5 if extracted(text)[1] == "tag_fenced" else 0.0
            ),
            "fenced_released": alone(fenced_released),
        }

    @cached_property
    def _problems(self) -> Problems:
        training = Side("file", self.file, "kodcode-light-rl-10k", "train", text_columns=TEXT)
        return Problems(training, self.tested_on(), self.subset)


def _entry(verdicts: Sequence[Verdict], judge: Callable[[float], float]) -> float | TimeoutError:
    """The reward of a share of passed tests; a timeout where none passed and time ran out."""
    share = sum(verdict.outcome == "pass" for verdict in verdicts) / len(verdicts)
    late = next((v for v in verdicts if v.outcome == "timeout"), None)
    return judge(share) if share or late is None else TimeoutError(late.detail)
