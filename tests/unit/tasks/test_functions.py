"""Reward functions by name."""

import pytest

from dllmzoo.errors import DuplicateNameError
from dllmzoo.tasks import _functions
from dllmzoo.tasks._functions import FUNCTIONS, known_rewards, reward


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(_functions, "FUNCTIONS", dict(FUNCTIONS))


def test_a_declared_function_is_known_and_unchanged():
    @reward("mine", columns=("gold",))
    def mine(texts, records):
        return [1.0 for _ in texts]

    assert mine(["a"], [{}]) == [1.0]
    assert _functions.FUNCTIONS["mine"].function is mine
    assert _functions.FUNCTIONS["mine"].columns == ("gold",)
    assert {"mine", "exact_match", "contains"} <= set(known_rewards())


def test_a_second_function_of_that_name_is_refused_naming_both_places():
    @reward("mine")
    def one(texts, records):
        return []

    with pytest.raises(DuplicateNameError, match=r"test_functions.py:\d+ and at .*\.py:\d+"):

        @reward("mine")
        def two(texts, records):
            return []


def test_the_same_function_may_be_declared_again():
    def one(texts, records):
        return []

    assert reward("mine")(one) is reward("mine")(one)


def test_a_built_in_name_is_refused():
    with pytest.raises(DuplicateNameError, match="'contains' is built in"):
        reward("contains")(lambda texts, records: [])
