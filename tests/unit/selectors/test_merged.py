import pytest

from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout, used

Merged = SELECTORS.get("merged")

# row 0 commits at steps 0, 1, 3, 4, 6; row 1 at steps 2 and 5
PLAYED = rollout([[0, 1, 3, 4, 6], [2, 2, 5, 5, 5]], [[1.0] * 5] * 2, 7)


def test_consecutive_steps_that_committed_make_a_span():
    steps = Merged(every=2)(PLAYED, KEY)
    # spans of row 0: 0-1, 3-4, 6; of row 1: 2-5; ceil(7 / 2) = 4 columns
    assert steps.start_BK.tolist() == [[0, 3, 6, 7], [2, 7, 7, 7]]
    assert steps.stop_BK.tolist() == [[2, 5, 7, 7], [6, 7, 7, 7]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]


def test_empty_steps_are_not_counted():
    steps = Merged(every=3)(PLAYED, KEY)
    # steps 0, 1, 3 and 4, 6: not 0-2, 3-5, 6
    assert steps.start_BK.tolist() == [[0, 4, 7], [2, 7, 7]]
    assert steps.stop_BK.tolist() == [[4, 7, 7], [6, 7, 7]]


def test_one_is_every_step_that_committed():
    steps = Merged(every=1)(PLAYED, KEY)
    assert used(steps) == [[0, 1, 3, 4, 6], [2, 5]]
    assert (steps.stop_BK - steps.start_BK)[steps.weight_BK > 0].tolist() == [1] * 7


def test_a_span_longer_than_the_rollout_holds_it_all():
    steps = Merged(every=20)(PLAYED, KEY)
    assert steps.start_BK.tolist() == [[0], [2]] and steps.stop_BK.tolist() == [[7], [6]]


@pytest.mark.parametrize(
    ("T", "every", "expected"), [(128, 8, 16), (7, 2, 4), (3, 8, 1), (4, 1, 4)]
)
def test_costs_are_known_before_sampling(T, every, expected):
    assert Merged(every=every).num_selected(T) == expected


def test_a_span_holds_at_least_one_step():
    with pytest.raises(ValueError, match="every"):
        Merged(every=0)
