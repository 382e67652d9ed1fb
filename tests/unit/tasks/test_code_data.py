"""Rows of public data sets become problems with tests that can be run."""

import datasets
import pytest

from dllmzoo.tasks._code_data import code_example, halves, program
from tests.unit.tasks.code_rows import ACECODE, HUMANEVAL, KODCODE, MBPP


def test_assertions_are_tests_and_imports_their_setup():
    example = code_example(MBPP[3])
    assert example["question"] == MBPP[3]["prompt"]
    assert example["shown"] == "assert add(1) == 4"
    suite = example["suite"]
    assert (len(suite.tests), suite.setup, suite.names) == (3, "import math", ("add",))
    assert not suite.objects


def test_lists_may_be_written_as_text():
    row = {**MBPP[0], "test_list": str(MBPP[0]["test_list"]), "test_imports": "[]"}
    assert code_example(row)["suite"].tests == tuple(MBPP[0]["test_list"])


def test_older_columns_of_mbpp_are_read_too():
    row = {**MBPP[0], "text": "Add.", "test_setup_code": "y = 1"}
    del row["prompt"], row["test_imports"]
    example = code_example(row)
    assert (example["question"], example["suite"].setup) == ("Add.", "y = 1")


def test_a_function_to_be_completed_is_checked_with_its_own_helpers():
    example = code_example(HUMANEVAL[2])
    suite = example["suite"]
    assert suite.tests == ("check(total)",) and suite.names == ("total",)
    assert "import math" in suite.setup and "def shift" in suite.setup
    assert "def total" not in suite.setup and "def check" in suite.setup
    assert "def total" in example["question"] and example["entry"] == "total"


def test_what_the_prompt_gives_comes_before_the_program():
    example = code_example(HUMANEVAL[2])
    whole = "def total(xs):\n    return 1"
    assert program(whole, example).endswith(whole)
    assert "def shift" in program(whole, example) and "List" in program(whole, example)
    assert program("    return 1", example) == HUMANEVAL[2]["prompt"] + "    return 1"
    future = "from __future__ import annotations\ndef total(xs):\n    return 1"
    assert program(future, example) == future
    assert program(whole, code_example(MBPP[0])) == whole


def test_functions_and_methods_of_pytest_are_tests_and_fixtures_are_left_out():
    suite = code_example(KODCODE[2])["suite"]
    assert [test.partition("pytest.run")[2] for test in suite.tests] == [
        "(test_value)", "(test_none)", "(test_many)", "_method(TestMore, 'test_zero')",
    ]  # fmt: skip
    assert suite.names == ("times",) and suite.setup == KODCODE[2]["test"]
    only = {**KODCODE[0], "test": "def test_it(tmp_path):\n    assert tmp_path"}
    assert code_example(only)["suite"] is None
    patched = "@patch('solution.x')\ndef test_it():\n    pass"
    assert code_example({**KODCODE[0], "test": patched})["suite"] is None


@pytest.mark.parametrize(
    "body",
    [
        "with patch('builtins.input'): times(1)", "open('x', 'w').close()",
        "sys.stdin = io.StringIO('1')", "assert inspect.isfunction(times)", "times(Mock())",
        "class Mine(times): pass", "random.seed(1)", "sys.setrecursionlimit(9999)",
        "decimal.getcontext().prec = 50", "assert asdict(times(1))", "pytest.skip('later')",
        "with pytest.warns(UserWarning): times(1)", "Path('x').write_text('1')",
    ],
)  # fmt: skip
def test_tests_that_two_processes_cannot_run_are_left_out(body):
    two = f"from solution import times\ndef test_a():\n    {body}\ndef test_b():\n    times(1)"
    suite = code_example({**KODCODE[0], "test": two})["suite"]
    assert [test.partition("pytest.run")[2] for test in suite.tests] == ["(test_b)"]


@pytest.mark.parametrize("mark", ["skip", "skipif(True, reason='x')", "xfail"])
def test_tests_that_are_marked_not_to_be_run_are_left_out(mark):
    two = (
        f"import pytest\nfrom solution import times\n@pytest.mark.{mark}\ndef test_a():\n"
        "    assert False\n@pytest.mark.slow\ndef test_b():\n    times(1)"
    )
    suite = code_example({**KODCODE[0], "test": two})["suite"]
    assert [test.partition("pytest.run")[2] for test in suite.tests] == ["(test_b)"]


@pytest.mark.parametrize(
    "first", ["import pandas as pd", "@pytest.fixture(autouse=True)\ndef reset(): pass"]
)
def test_files_of_tests_that_need_more_are_left_out(first):
    test = f"{first}\nfrom solution import times\ndef test_a():\n    assert times(1) == 0"
    assert code_example({**KODCODE[0], "test": test})["suite"] is None


def test_a_function_called_like_a_module_is_the_programs():
    row = {**ACECODE[0], "test_cases": ["assert copy([1]) == [1]", "assert abs(less(1)) == 1"]}
    assert code_example(row)["suite"].names == ("copy",)
    imported = {**row, "test_cases": ["from copy import copy\nassert copy(less(1)) == 1"]}
    assert code_example(imported)["suite"].names == ()


def test_classes_in_a_solution_make_the_tests_ones_of_objects():
    row = {**KODCODE[0], "solution": "class Times:\n    pass"}
    assert code_example(row)["suite"].objects
    assert not code_example(KODCODE[0])["suite"].objects
    row = {**ACECODE[0], "test_cases": ["assert Less(1).value == 0"]}
    assert code_example(row)["suite"].objects and not code_example(ACECODE[0])["suite"].objects


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**MBPP[0], "prompt": " "}, "no question"),
        ({**MBPP[0], "test_list": ["assert ("]}, "a test is no Python"),
        ({**MBPP[0], "test_list": 3}, "no list of assertions"),
        ({**MBPP[0], "test_list": "x"}, "no list of texts"),
        ({**KODCODE[0], "test": "def ("}, "the tests are no Python"),
        ({**HUMANEVAL[0], "test": "x = 1"}, "function to be completed"),
    ],
)
def test_rows_that_cannot_be_used_say_why(row, said):
    with pytest.raises(ValueError, match=said):
        code_example(row)


def test_the_pool_is_split_as_the_datasets_library_splits_it():
    table = datasets.Dataset.from_dict({"i": list(range(101))})
    expected = table.train_test_split(test_size=0.1, seed=42)
    train, test = halves(101)
    assert test == expected["test"]["i"] and len(test) == 11
    assert train == expected["train"]["i"]
