import pytest

from dllmzoo.lab.stability.binomial import at_most, exact_interval


@pytest.mark.parametrize(
    ("hits", "outof", "low", "high"),
    [(0, 5, 0.0, 0.5218), (5, 5, 0.4782, 1.0), (3, 10, 0.0667, 0.6525), (0, 0, 0.0, 1.0)],
)
def test_the_interval_is_clopper_and_pearsons(hits, outof, low, high):
    assert exact_interval(hits, outof) == pytest.approx((low, high), abs=1e-4)


def test_its_ends_have_a_chance_of_a_fortieth():
    low, high = exact_interval(2, 7)
    assert at_most(2, 7, high) == pytest.approx(0.025)
    assert 1 - at_most(1, 7, low) == pytest.approx(0.025)
