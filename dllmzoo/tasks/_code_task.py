"""What the code tasks have in common: programs are extracted, run in a sandbox, and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

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
from dllmzoo.tasks._code_data import Problems, program
from dllmzoo.tasks._code_extract import WAYS, Way, extracted, fenced_released, tree
from dllmzoo.tasks._code_prompts import CodePromptStyle, Messages, asked_code, code_demonstration
from dllmzoo.tasks._epochs import epoch_positions
from dllmzoo.tasks._extract import well_formed
from dllmzoo.tasks._rewards import OnError, RewardFunction, checked_weights, score

CODE_COMPONENTS = (
    "passed", "all_passed", "format", "tags", "xmlcount_released", "block_in_answer_released",
    "fenced_released",
)  # fmt: skip
UNNAMED = (
    "answers of this task are programs that have to be run, and no `sandbox` is named: write "
    "`sandbox: bubblewrap` (recommended; `apt-get install bubblewrap`), which keeps them from the "
    "network, from your files and from your processes, or `sandbox: subprocess`, which only limits "
    "their time, memory, output and number of processes"
)


def known_code_rewards(weights: dict[str, float]) -> dict[str, float]:
    """The weights, if every component is one of code tasks."""
    return checked_weights(weights, CODE_COMPONENTS)


class CodeTask:
    """The methods of a code task; a task adds its fields, its documentation and `problems_of`."""

    prompt_style: CodePromptStyle
    rewards: dict[str, float]
    sandbox: Isolation | None
    time_limit: float
    memory_mb: int
    workers: int | None
    file: str | None
    test_file: str | None
    on_error: OnError
    __dataclass_fields__: ClassVar[dict[str, Any]]

    primary: ClassVar[str] = "solved_rate"

    def problems_of(self) -> Problems:
        """Where the two sides come from."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone: data and workers are each process's own."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    def draw(self, num: int, key: Key) -> list[Example]:
        """Training problems of a round: its slice of the shuffled epochs."""
        rows = self._problems.trained_on
        return [rows[i] for i in epoch_positions(len(rows), num, key)]

    def test(self, num: int) -> list[Example]:
        """The first `num` test problems, in the order of their source."""
        return self._problems.held_out[:num]

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

        def alone(judge: Callable[[str], float]) -> RewardFunction:
            return lambda texts, _: [judge(text) for text in texts]

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
        return self.problems_of()


def _entry(verdicts: Sequence[Verdict], judge: Callable[[float], float]) -> float | TimeoutError:
    """The reward of a share of passed tests; a timeout where none passed and time ran out."""
    share = sum(verdict.outcome == "pass" for verdict in verdicts) / len(verdicts)
    late = next((v for v in verdicts if v.outcome == "timeout"), None)
    return judge(share) if share or late is None else TimeoutError(late.detail)
