"""Unit test of the errors: what they are, what they print, what the command line returns."""

import pytest

from dllmzoo import errors
from dllmzoo.errors import DllmzooError, HealthError, Interrupted, Problem, RecipeError, UsageError


def every_error() -> list[type[DllmzooError]]:
    return [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, DllmzooError)]


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.__name__)
def test_every_error_says_what_it_is_and_has_an_exit_code(error):
    assert error.__doc__ and error.__doc__.splitlines()[0].endswith(".")
    assert error.exit_code in {1, 2, 3, 130}


def test_errors_are_also_the_errors_of_python_that_they_replace():
    assert issubclass(UsageError, ValueError)
    assert issubclass(errors.UnknownNameError, LookupError)
    assert issubclass(errors.DuplicateNameError, ValueError)
    assert issubclass(errors.PluginError, ImportError)
    assert issubclass(HealthError, RuntimeError)


def test_exit_codes_tell_a_bad_recipe_from_a_collapsed_run_and_an_interrupt():
    assert (RecipeError.exit_code, UsageError.exit_code) == (2, 2)
    assert (HealthError.exit_code, Interrupted.exit_code) == (3, 130)
    assert errors.RunError.exit_code == errors.TaskError.exit_code == 1


def test_a_problem_prints_place_path_message_and_hint():
    problem = Problem("r.yaml:7:3", "loss.clip_lo", "unknown key", "did you mean 'clip_low'?")
    assert str(problem) == "r.yaml:7:3: loss.clip_lo: unknown key\n    did you mean 'clip_low'?"
    assert str(Problem("r.yaml:1:1", "", "the file is empty")) == "r.yaml:1:1: the file is empty"


def test_a_recipe_error_carries_all_problems_in_reading_order():
    problems = (Problem("r.yaml:9:1", "b", "second"), Problem("r.yaml:2:1", "a", "first"))
    error = RecipeError(problems)
    assert error.problems == list(problems)
    assert str(error) == "r.yaml:9:1: b: second\nr.yaml:2:1: a: first"
