"""Functions to be completed, HumanEval, tested in a sandbox."""

from dataclasses import dataclass

from dllmzoo.tasks._code_data import TEXT
from dllmzoo.tasks._code_task import CodeTask
from dllmzoo.tasks._questions import Side
from dllmzoo.zoo import TASKS


@TASKS.register("humaneval")
@dataclass(frozen=True)
class Humaneval(CodeTask):
    """HumanEval: 164 functions to complete from signature and docstring, to test on.

    The program is the last fenced block of the last answer tag, else the last fenced block, else
    the whole text if it is Python or goes on from the signature, in training and in evaluation.
    Imports and helpers of the prompt are put before it. The check function of a problem is one
    test; it runs in another process than the program and compares the values it returns.

    References:
        Chen et al., 2021, Evaluating Large Language Models Trained on Code (arXiv:2107.03374).
    """

    def tested_on(self) -> Side:
        """The public problems, or a file."""
        return Side("test_file", self.test_file, "humaneval-test", "test", text_columns=TEXT)
