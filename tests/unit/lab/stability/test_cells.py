import pytest

from dllmzoo.lab.stability.cells import over_seeds
from tests.unit.lab.stability.made import entries


def test_failed_runs_count_nowhere():
    cell = over_seeds(entries("base", "grpo", [[0.2, 0.2]] * 4, stopped=2, failed=1))[0]
    assert (cell["seeds"], cell["failed"], cell["collapsed"]) == ([0, 1, 2], 1, 2)
    assert cell["signs"] == {"not finite": 2}
    assert cell["updates"] == 5


def test_the_first_sign_dates_a_collapse_and_every_sign_is_counted():
    runs = entries("base", "grpo", [[0.2, 0.01, 0.01, 0.01]] * 2, stopped=1)
    cell = over_seeds(runs)[0]
    assert [run["collapsed"] for run in runs] == [4, 4]
    assert cell["signs"] == {"not finite": 1, "solved rate": 2}
    assert (cell["collapsed"], cell["updates"]) == (2, 4)


def test_rates_are_averaged_and_extremes_kept():
    solved = [[0.2, 0.2, 0.3], [0.2, 0.1, 0.5]]
    found = over_seeds(entries("base", "stable_drl", solved))[0]["figures"]
    assert found["solved_late"] == pytest.approx(0.4)
    # deviation sqrt(0.02), over sqrt(2) seeds is 0.1; t of one degree is 12.7062
    assert found["solved_late_high"] == pytest.approx(0.4 + 1.27062)
    assert found["solved_low"] == 0.1
