"""Programs with tests for pytest, KodCode, run in a sandbox."""

from dataclasses import dataclass

from dllmzoo.tasks._code_data import TEXT
from dllmzoo.tasks._code_task import CodeTask
from dllmzoo.tasks._questions import Side
from dllmzoo.zoo import TASKS


@TASKS.register("kodcode")
@dataclass(frozen=True)
class Kodcode(CodeTask):
    """KodCode: programs with tests for pytest; nine tenths to train on, one tenth to test.

    The program is the last fenced block of the last answer tag, else the last fenced block, else
    the whole text if it is Python, in training and in evaluation. Each test function is a test of
    its own; those that need fixtures are left out. Tests run in another process than the program,
    with a stand-in for pytest, and compare the values it returns. The split is by seed 42.

    References:
        Xu et al., 2025, KodCode (arXiv:2503.02951).
    """

    def tested_on(self) -> Side | None:
        """A file, or the last tenth of what is trained on."""
        side = Side("test_file", self.test_file, None, "test", text_columns=TEXT)
        return None if self.test_file is None else side
