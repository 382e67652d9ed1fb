"""Short Python programs for MBPP, tested by assertions in a sandbox."""

from dataclasses import dataclass

from dllmzoo.tasks._code_data import TEXT
from dllmzoo.tasks._code_task import CodeTask
from dllmzoo.tasks._questions import Side
from dllmzoo.zoo import TASKS


@TASKS.register("mbpp")
@dataclass(frozen=True)
class Mbpp(CodeTask):
    """MBPP: short programs, tested by three assertions; 257 sanitized problems to test on.

    The program is the last fenced block of the last answer tag, else the last fenced block, else
    the whole text if it is Python, in training and in evaluation. Each assertion is a test of its
    own, and the prompt shows the first. Tests run in another process than the program and compare
    the values it returns, so ending early or patching the checker passes nothing.

    References:
        Austin et al., 2021, Program Synthesis with Large Language Models (arXiv:2108.07732).
    """

    def tested_on(self) -> Side:
        """The public problems, or a file."""
        return Side("test_file", self.test_file, "mbpp-sanitized", "test", "sanitized", TEXT)
