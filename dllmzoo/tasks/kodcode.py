"""Programs with tests for pytest, KodCode, run in a sandbox."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from dllmzoo.sandbox import Isolation
from dllmzoo.tasks._code_data import TEXT, Problems
from dllmzoo.tasks._code_prompts import CodePromptStyle
from dllmzoo.tasks._code_task import CodeTask, known_code_rewards
from dllmzoo.tasks._questions import Side
from dllmzoo.tasks._rewards import OnError
from dllmzoo.zoo import TASKS


@TASKS.register("kodcode")
@dataclass(frozen=True)
class Kodcode(CodeTask):
    """KodCode: programs with tests for pytest; nine tenths to train on, one tenth to test.

    The program is the last fenced block of the last answer tag, else the last fenced block, else
    the whole text if it is Python, in training and in evaluation. Each test function is a test of
    its own; those that need fixtures are left out. Tests run in another process than the program,
    with a stand-in for pytest, and compare the values it returns. The split is by seed 42.

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
            AceCode; null takes the card kodcode-light-rl-10k.
        test_file: the same to test on; null takes a tenth of the training data.
            Problems of the test are never trained on.
        on_error: what an error inside a reward does: stop, count as 0, or leave the text out.

    References:
        Xu et al., 2025, KodCode (arXiv:2503.02951).
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
    test_file: str | None = None
    on_error: OnError = "raise"

    def problems_of(self) -> Problems:
        """One pool, or two files."""
        training = Side("file", self.file, "kodcode-light-rl-10k", "train", text_columns=TEXT)
        test = Side("test_file", self.test_file, None, "test", text_columns=TEXT)
        return Problems(training, test if self.test_file is not None else None)
