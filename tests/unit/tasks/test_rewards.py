"""Outcomes told apart: value, abstain, error, timeout; wrong lengths and columns by name."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from dllmzoo.errors import TaskError
from dllmzoo.records import ABSTAIN, ERROR, TIMEOUT, VALUE
from dllmzoo.tasks._rewards import checked_weights, score

TEXTS = ["a", "b", "c"]
ROWS = [{"gold": "a"}, {"gold": "b"}, {"gold": "x"}]


def of(*given, on_error="raise", weight=1.0):
    """Rewards of one function that gives these entries."""
    texts = [str(i) for i in range(len(given))]
    examples = [{} for _ in given]
    return score({"r": lambda t, e: list(given)}, {"r": weight}, texts, examples, on_error)


def failing(bad, error=RuntimeError):
    """A function that raises as soon as it sees the text `bad`."""

    def function(texts, records):
        if bad in texts:
            raise error(f"cannot judge {bad}")
        return [1.0 for _ in texts]

    return function


def test_the_total_is_the_weighted_sum():
    functions = {"one": lambda t, e: [1, 2, 3], "two": lambda t, e: [0.5, 0.0, -1.0]}
    rewards = score(functions, {"two": 2.0, "one": 0.5}, TEXTS, ROWS)
    # 2*.5 + .5*1 = 1.5; 2*0 + .5*2 = 1; 2*-1 + .5*3 = -.5
    assert rewards.total_X.tolist() == [1.5, 1.0, -0.5]
    assert rewards.names == ("two", "one")
    assert rewards.part_XC.tolist() == [[0.5, 1.0], [0.0, 2.0], [-1.0, 3.0]]
    assert rewards.counted_X.tolist() == [True] * 3
    assert rewards.outcome_XC.tolist() == [[VALUE, VALUE]] * 3
    assert rewards.total_X.dtype == rewards.part_XC.dtype == torch.float32
    assert rewards.counted_X.dtype == torch.bool
    assert rewards.outcome_XC.dtype == torch.int8


def test_a_function_is_called_once_with_all_texts():
    calls = []

    def function(texts, records):
        calls.append((list(texts), [dict(record) for record in records]))
        return [0.0] * len(texts)

    score({"r": function}, {"r": 1.0}, TEXTS, ROWS)
    assert calls == [(TEXTS, ROWS)]


ONES = [True, 1, 1.0, np.float32(1), np.float64(1), np.int64(1), np.bool_(True), np.array(1.0)]
ONES += [torch.tensor(1), torch.tensor(1.0), torch.tensor(True), Fraction(1), Decimal(1)]


@pytest.mark.parametrize("number", ONES, ids=lambda number: type(number).__name__)
def test_everything_that_is_a_number_counts(number):
    rewards = of(number)
    assert rewards.total_X.tolist() == [1.0]
    assert rewards.outcome_XC.tolist() == [[VALUE]]


@pytest.mark.parametrize(
    "given", [torch.tensor([1.0, 2.0, 3.0]), np.array([1, 2, 3]), (1, 2, 3), iter([1, 2, 3])]
)
def test_any_row_of_numbers_is_a_result(given):
    rewards = score({"r": lambda t, e: given}, {"r": 1.0}, TEXTS, ROWS)
    assert rewards.total_X.tolist() == [1.0, 2.0, 3.0]


def test_one_value_for_six_answers_is_refused_with_both_counts():
    with pytest.raises(TaskError, match="'r' returned 1 values for 6 texts"):
        score({"r": lambda t, e: [1.0]}, {"r": 1.0}, list("abcdef"), [{}] * 6, "zero")
    with pytest.raises(TaskError, match="'r' returned 7 values for 6 texts"):
        score({"r": lambda t, e: [1.0] * 7}, {"r": 1.0}, list("abcdef"), [{}] * 6, "abstain")


@pytest.mark.parametrize("given", [1.0, None, "abc", torch.tensor(1.0), {"a": 1}, {1, 2, 3}])
def test_what_is_no_list_is_refused(given):
    with pytest.raises(TaskError, match=r"returned one \w+ for 3 texts"):
        score({"r": lambda t, e: given}, {"r": 1.0}, TEXTS, ROWS)


def test_texts_and_examples_must_be_as_many():
    with pytest.raises(TaskError, match="3 texts but 2 examples"):
        score({"r": lambda t, e: [1.0] * 3}, {"r": 1.0}, TEXTS, ROWS[:2])


def test_none_abstains():
    rewards = of(1.0, None)
    assert rewards.total_X.tolist() == [1.0, 0.0]
    assert rewards.counted_X.tolist() == [True, False]
    assert rewards.outcome_XC.tolist() == [[VALUE], [ABSTAIN]]


def test_a_component_that_abstains_is_left_out_of_the_sum():
    functions = {"one": lambda t, e: [1.0, None, None], "two": lambda t, e: [2.0, 2.0, None]}
    rewards = score(functions, {"one": 1.0, "two": 1.0}, TEXTS, ROWS)
    assert rewards.total_X.tolist() == [3.0, 2.0, 0.0]
    assert rewards.counted_X.tolist() == [True, True, False]


def test_a_component_without_weight_decides_nothing():
    functions = {"watched": lambda t, e: [1.0, 1.0, None], "r": lambda t, e: [1.0, None, 1.0]}
    rewards = score(functions, {"watched": 0.0, "r": 1.0}, TEXTS, ROWS)
    assert rewards.total_X.tolist() == [1.0, 0.0, 1.0]
    assert rewards.counted_X.tolist() == [True, False, True]
    assert rewards.part_XC[:, 0].tolist() == [1.0, 1.0, 0.0]


BAD = [math.nan, math.inf, -math.inf, 1e39, "1.0", 1j, [1.0], torch.tensor([1.0]), object()]
BAD += [Decimal("NaN"), Decimal("sNaN"), 10**400, ValueError("no"), torch.tensor(math.nan)]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: type(bad).__name__)
def test_what_is_no_finite_number_is_an_error(bad):
    with pytest.raises(TaskError, match=r"reward 'r'.*text 1.*on_error"):
        of(1.0, bad)
    zero = of(1.0, bad, on_error="zero")
    assert zero.outcome_XC.tolist() == [[VALUE], [ERROR]]
    assert zero.counted_X.tolist() == [True, True]
    assert zero.total_X.tolist() == zero.part_XC[:, 0].tolist() == [1.0, 0.0]
    abstain = of(1.0, bad, on_error="abstain")
    assert abstain.outcome_XC.tolist() == [[VALUE], [ERROR]]
    assert abstain.counted_X.tolist() == [True, False]
    assert abstain.total_X.tolist() == [1.0, 0.0]


def test_an_exception_stops_naming_reward_text_and_cause():
    with pytest.raises(TaskError, match=r"'r' fails on text 1 \('b'\): RuntimeError: cannot") as e:
        score({"r": failing("b")}, {"r": 1.0}, TEXTS, ROWS)
    assert isinstance(e.value.__cause__, RuntimeError)


@pytest.mark.parametrize(("on_error", "counted"), [("zero", True), ("abstain", False)])
def test_an_exception_falls_on_its_text_alone(on_error, counted):
    rewards = score({"r": failing("b")}, {"r": 1.0}, TEXTS, ROWS, on_error)
    assert rewards.outcome_XC.tolist() == [[VALUE], [ERROR], [VALUE]]
    assert rewards.total_X.tolist() == [1.0, 0.0, 1.0]
    assert rewards.counted_X.tolist() == [True, counted, True]


def test_an_error_in_one_component_leaves_no_half_total_under_abstain():
    functions = {"r": failing("b"), "other": lambda t, e: [5.0] * len(t)}
    weights = {"r": 1.0, "other": 1.0}
    abstain = score(functions, weights, TEXTS, ROWS, "abstain")
    assert abstain.counted_X.tolist() == [True, False, True]
    assert abstain.total_X.tolist() == [6.0, 0.0, 6.0]
    zero = score(functions, weights, TEXTS, ROWS, "zero")
    assert zero.total_X.tolist() == [6.0, 5.0, 6.0]


def test_an_error_of_the_texts_together_is_an_error():
    def function(texts, records):
        if len(texts) > 1:
            raise RuntimeError("too many")
        return [1.0]

    with pytest.raises(TaskError, match=r"RuntimeError: too many .* 3 texts together"):
        score({"r": function}, {"r": 1.0}, TEXTS, ROWS)
    assert score({"r": function}, {"r": 1.0}, TEXTS, ROWS, "zero").total_X.tolist() == [1.0] * 3


@pytest.mark.parametrize("on_error", ["raise", "zero"])
def test_a_timeout_counts_as_zero_and_stops_nothing(on_error):
    for rewards in (
        of(1.0, TimeoutError(), on_error=on_error),
        score({"r": failing("b", TimeoutError)}, {"r": 1.0}, TEXTS[:2], ROWS[:2], on_error),
    ):
        assert rewards.outcome_XC.tolist() == [[VALUE], [TIMEOUT]]
        assert rewards.total_X.tolist() == [1.0, 0.0]
        assert rewards.counted_X.tolist() == [True, True]


def test_a_timeout_is_not_counted_under_abstain():
    assert of(1.0, TimeoutError(), on_error="abstain").counted_X.tolist() == [True, False]


@pytest.mark.parametrize("on_error", ["raise", "zero", "abstain"])
def test_a_missing_column_is_named_with_its_data(on_error):
    def function(texts, records):
        return [
            float(record["answer"] == text) for text, record in zip(texts, records, strict=True)
        ]

    with pytest.raises(TaskError, match=r"column 'answer', which my.jsonl does not .*: gold"):
        score({"r": function}, {"r": 1.0}, TEXTS, ROWS, on_error, source="my.jsonl")


def test_a_missing_column_may_be_asked_for():
    def function(texts, records):
        return [record.get("answer") for record in records]

    assert score({"r": function}, {"r": 1.0}, TEXTS, ROWS).counted_X.tolist() == [False] * 3


def test_no_function_can_spoil_the_examples():
    def function(texts, records):
        texts.clear()
        for record in records:
            record["gold"] = "spoilt"
        return [0.0] * len(records)

    rows = [dict(row) for row in ROWS]
    score({"r": function}, {"r": 1.0}, TEXTS, rows)
    assert rows == ROWS and TEXTS == ["a", "b", "c"]


def test_no_texts_give_empty_rewards_and_no_call():
    rewards = score({"r": failing("a"), "s": failing("b")}, {"r": 1.0, "s": 1.0}, [], [])
    assert rewards.part_XC.shape == rewards.outcome_XC.shape == (0, 2)
    assert rewards.total_X.shape == rewards.counted_X.shape == (0,)


def test_totals_are_always_finite():
    with pytest.raises(TaskError, match="does not fit into float32"):
        of(3e38, weight=1e10, on_error="zero")


def test_weights_are_checked():
    assert checked_weights({"a": 1.0, "b": 0.0}, ("a", "b")) == {"a": 1.0, "b": 0.0}
    with pytest.raises(ValueError, match=r"no reward named 'cels'. Did you mean 'cells'"):
        checked_weights({"cels": 1.0}, ("cells", "solved"))
    with pytest.raises(ValueError, match="other than 0"):
        checked_weights({"a": 0.0}, ("a",))
    with pytest.raises(ValueError, match="must be finite"):
        checked_weights({"a": math.inf}, ("a",))
