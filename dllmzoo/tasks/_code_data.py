"""Programming problems with tests, from rows of MBPP, HumanEval, KodCode or AceCode."""

from __future__ import annotations

import ast
import json
import logging
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from dllmzoo.errors import TaskError
from dllmzoo.records import Example
from dllmzoo.sandbox import LIBRARY, Suite
from dllmzoo.tasks._code_extract import bound, defines, is_program, tree
from dllmzoo.tasks._hard_subset import hard_subset
from dllmzoo.tasks._questions import Side, first_of, question_of, rows_of, same_question

Subset = Literal["all", "hard"]

log = logging.getLogger("dllmzoo")

QUESTION = ("question", "prompt", "text")
TESTS = ("test_list", "test_cases", "test")
COLUMNS = (QUESTION, TESTS)
TEXT = (*QUESTION, *TESTS, "code", "solution", "canonical_solution", "entry_point")
LEFT_OUT = (
    "tests that take fixtures of pytest, patch the program, share files, standard input or a "
    "random seed with it, derive classes from its own, or use packages other than numpy, are not "
    "run"
)
LIBRARY_NAMES = frozenset(LIBRARY)
"""Modules that tests have without an import; where a test calls one, it means the program's."""
OF_ONE_PROCESS = {
    "AsyncMock", "MagicMock", "Mock", "NamedTemporaryFile", "TemporaryDirectory", "asdict",
    "astuple", "getcontext", "inspect", "is_dataclass", "localcontext", "mock", "monkeypatch",
    "open", "patch", "pickle", "setrecursionlimit", "tempfile", "weakref",
}  # fmt: skip
STATE_OF_ONE_PROCESS = {
    "asdict", "assertLogs", "assertWarns", "astuple", "catch_warnings", "chdir", "environ",
    "getcontext", "is_dataclass", "localcontext", "mock", "read_text", "seed", "setrecursionlimit",
    "stdin", "write_text",
}  # fmt: skip
OF_PYTEST = {"approx", "fail", "fixture", "mark", "param", "raises"}
"""What the stand-in for pytest has."""
NOT_RUN = ("patch", "skip", "xfail")
"""Words in the decorator of a test that asks for something else than being run."""
PACKAGES = frozenset({"numpy", "pytest", "solution"})
POOL_SEED, POOL_TEST_SHARE = 42, 0.1


def code_example(row: Mapping[str, Any]) -> Example:
    """A problem: `question`, `shown` (a test for the prompt), `solution`, `entry`, `prefix`, suite.

    The suite is None where no test of the row can be run.

    Raises:
        ValueError: no question, or tests that are no Python.
    """
    if row.get("entry_point"):
        return _humaneval(row)
    question = question_of(row, QUESTION)
    solution = str(first_of(row, ("code", "solution", "canonical_solution")) or "")
    tests = first_of(row, TESTS)
    suite = _pytest(str(tests), solution) if row.get("test") else _asserts(row, tests, solution)
    shown = suite.tests[0] if suite is not None and not row.get("test") else ""
    return {
        "question": question, "shown": shown, "solution": solution, "entry": "", "prefix": "",
        "suite": suite,
    }  # fmt: skip


def _asserts(row: Mapping[str, Any], tests: Any, solution: str) -> Suite | None:
    """Tests of MBPP and AceCode: a list of assertions."""
    if isinstance(tests, str):
        tests = _read_list(tests)
    if not isinstance(tests, Sequence) or not all(isinstance(test, str) for test in tests):
        raise ValueError("the tests are no list of assertions")
    imports = row.get("test_imports") or []
    imports = _read_list(imports) if isinstance(imports, str) else imports
    setup = "\n".join([*imports, str(row.get("test_setup_code") or "")]).strip()
    wrong = next((test for test in (setup, *tests) if tree(test) is None), None)
    if wrong is not None:
        raise ValueError(f"a test is no Python: {wrong[:60]!r}")
    called = {name for test in tests for name in _called(test)}
    names = _defined(solution) if solution else tuple(sorted(called & LIBRARY_NAMES))
    objects = _has_classes(solution) if solution else any(name[:1].isupper() for name in called)
    return Suite(tuple(test.strip() for test in tests), setup, names, objects) if tests else None


def _read_list(text: str) -> list[str]:
    for read in (json.loads, ast.literal_eval):
        try:
            return list(read(text)) if text.strip() else []
        except (ValueError, SyntaxError, TypeError):
            continue
    raise ValueError(f"{text[:40]!r} is no list of texts")


def _pytest(source: str, solution: str) -> Suite | None:
    """Tests of KodCode: a file of functions for pytest."""
    syntax = tree(source)
    if syntax is None:
        raise ValueError("the tests are no Python")
    if _needs_more(syntax):
        return None
    calls = []
    imported: set[str] = set()
    for node in syntax.body:
        if isinstance(node, ast.ImportFrom) and node.module == "solution":
            imported |= {alias.name for alias in node.names if alias.name != "*"}
    names = tuple(dict.fromkeys((*sorted(imported), *_defined(solution))))
    own = set(names)
    for node in syntax.body:
        if (
            isinstance(node, ast.FunctionDef)
            and node.name.startswith("test")
            and _free(node, 0, own)
        ):
            calls.append(f"import pytest\npytest.run({node.name})")
        elif isinstance(node, ast.ClassDef):
            calls += [
                f"import pytest\npytest.run_method({node.name}, {method.name!r})"
                for method in node.body
                if isinstance(method, ast.FunctionDef) and method.name.startswith("test")
                if _free(method, 1, own)
            ]
    objects = _has_classes(solution) or any(name[:1].isupper() for name in imported)
    return Suite(tuple(calls), source, names, objects) if calls else None


def _needs_more(syntax: ast.Module) -> bool:
    """Whether tests need packages that values of theirs cannot cross with, or hidden fixtures."""
    for node in ast.walk(syntax):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module)]
        known = sys.stdlib_module_names | PACKAGES
        if any(name.partition(".")[0] not in known for name in names):
            return True
        if isinstance(node, ast.keyword) and node.arg == "autouse":
            return True
    return False


def _free(test: ast.FunctionDef, given: int, own: set[str]) -> bool:
    """Whether a test can be run, in another process than the program.

    Its arguments are parameters that pytest would fill in, it uses no file, no patch and nothing
    else that two processes do not have in common, and derives no class from one of the program.

    Args:
        test: its definition.
        given: arguments that a class fills in.
        own: names that are the program's.
    """
    known = {"self"} if given else set()
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and "parametrize" in ast.unparse(mark.func) and mark.args:
            first = mark.args[0]
            if isinstance(first, ast.Constant):
                known |= {name.strip() for name in str(first.value).split(",")}
            elif isinstance(first, ast.List | ast.Tuple):
                known |= {str(e.value) for e in first.elts if isinstance(e, ast.Constant)}
        elif any(word in ast.unparse(mark) for word in NOT_RUN):
            return False
    for node in ast.walk(test):
        by_name = isinstance(node, ast.Name) and node.id in OF_ONE_PROCESS
        if by_name or (isinstance(node, ast.Attribute) and not _shared(node)):
            return False
        if isinstance(node, ast.ClassDef) and any(getattr(b, "id", "") in own for b in node.bases):
            return False
    arguments = test.args.args[: len(test.args.args) - len(test.args.defaults)]
    return {argument.arg for argument in arguments} <= known


def _shared(node: ast.Attribute) -> bool:
    """Whether an attribute means the same to a test that runs apart from the program."""
    if isinstance(node.value, ast.Name) and node.value.id == "pytest":
        return node.attr in OF_PYTEST
    return node.attr not in STATE_OF_ONE_PROCESS


def _humaneval(row: Mapping[str, Any]) -> Example:
    """A function to be completed: its signature, and a function that checks it."""
    prefix, entry, test = str(row.get("prompt") or ""), str(row["entry_point"]), row.get("test")
    syntax, checks = tree(prefix + "\n    pass\n"), tree(str(test or ""))
    if syntax is None or checks is None or "check" not in bound(checks):
        raise ValueError("the prompt and the test are not those of a function to be completed")
    before = [node for node in syntax.body if getattr(node, "name", None) != entry]
    preamble = "\n".join(map(ast.unparse, before))
    return {
        "question": f"Complete this function.\n\n```python\n{prefix.strip()}\n```",
        "shown": "", "solution": prefix + str(row.get("canonical_solution") or ""),
        "entry": entry, "prefix": prefix,
        "suite": Suite((f"check({entry})",), f"{preamble}\n{test}", (entry,)),
    }  # fmt: skip


def program(code: str, example: Example) -> str:
    """A whole program: what the answer goes on from, or uses without importing it, comes first."""
    prefix, entry = str(example.get("prefix") or ""), str(example.get("entry") or "")
    if not prefix:
        return code
    if not defines(code, entry) and is_program(prefix + code):
        return prefix + code
    syntax = tree(prefix + "\n    pass\n")
    kept = [node for node in syntax.body if getattr(node, "name", None) != entry] if syntax else []
    if not kept or "from __future__" in code:
        return code
    return "\n".join([*map(ast.unparse, kept), code])


def _defined(solution: str) -> tuple[str, ...]:
    syntax = tree(solution)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple(n.name for n in syntax.body if isinstance(n, kinds)) if syntax else ()


def _has_classes(solution: str) -> bool:
    syntax = tree(solution)
    return "namedtuple" in solution or (
        syntax is not None and any(isinstance(node, ast.ClassDef) for node in ast.walk(syntax))
    )


def _called(test: str) -> set[str]:
    """Names that a test calls and does not import."""
    syntax = tree(test)
    nodes = list(ast.walk(syntax)) if syntax else []
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    imported = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return {func.id for func in called if isinstance(func, ast.Name)} - imported


@dataclass(frozen=True)
class Problems:
    """Both sides of a code task.

    Args:
        training: where training rows come from; of the public pool nine tenths train.
        test: where test rows come from; None takes the last tenth of the training side.
        subset: of the training rows.
    """

    training: Side
    test: Side | None
    subset: Subset = "all"

    @cached_property
    def held_out(self) -> list[Example]:
        """Test problems that can be run, in the order of their source."""
        rows = self._pool if self.test is None else _rows(self.test)
        return _usable([rows[i] for i in halves(len(rows))[1]] if self.test is None else rows)

    @cached_property
    def trained_on(self) -> list[Example]:
        """Training problems that can be run, none of them in the test set.

        Raises:
            TaskError: no data, or nothing left of it.
        """
        rows, split = self._pool, self.test is None or self.training.file is None
        if split:
            rows = [rows[i] for i in halves(len(rows))[0]]
        tested = {same_question(example) for example in self.held_out}
        kept = [example for example in _usable(rows) if same_question(example) not in tested]
        if not kept:
            raise TaskError("no training problem is left that can be run and is not in the test")
        return kept

    @cached_property
    def _pool(self) -> list[Example]:
        return _rows(self.training, self.subset)

    @property
    def hub(self) -> str | None:
        """The data set that is fetched at the first example; None if files are named."""
        return (self.test.hub if self.test else None) or self.training.hub

    def problems(self) -> list[str]:
        """What is wrong with files that were named; nothing is fetched from the hub."""
        found = []
        for side in (self.training, *([self.test] if self.test else [])):
            try:
                subset = self.subset if side is self.training else "all"
                if side.file is not None and not _usable(_rows(side, subset)):
                    found.append(f"{side.file} holds no problem whose tests can be run")
            except TaskError as error:
                found.append(str(error))
        return found


def _rows(side: Side, subset: Subset = "all") -> list[Example]:
    table = side.read()
    return rows_of(
        hard_subset(table, QUESTION) if subset == "hard" else table, code_example, COLUMNS
    )


def _usable(rows: list[Example]) -> list[Example]:
    kept = [example for example in rows if example["suite"] is not None]
    if len(kept) < len(rows):
        log.warning(
            f"{len(rows) - len(kept)} of {len(rows)} problems have no test that can be run and are "
            f"left out; {LEFT_OUT}"
        )
    return kept


def halves(number: int) -> tuple[list[int], list[int]]:
    """Positions of the nine tenths that train and of the tenth that tests, seed 42.

    The same as `Dataset.train_test_split(test_size=0.1, seed=42)` of `datasets`.
    """
    import numpy

    order = numpy.random.default_rng(POOL_SEED).permutation(number).tolist()
    tests = math.ceil(POOL_TEST_SHARE * number)
    return order[tests:], order[:tests]
