import pytest

from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout

Segments = SELECTORS.get("segments")


def full(num_steps, rows=1):
    return rollout([list(range(num_steps))] * rows, [[1.0] * num_steps] * rows, num_steps)


@pytest.mark.parametrize(
    ("T", "parts", "starts"),
    [
        (8, 2, [0, 4]),
        (8, 3, [0, 2, 5]),  # 8/3 = 2.67, 5.33
        (7, 4, [0, 1, 3, 5]),  # 1.75, 3.5, 5.25
        (128, 8, [0, 16, 32, 48, 64, 80, 96, 112]),
        (3, 3, [0, 1, 2]),
        (5, 1, [0]),
    ],
)
def test_time_is_cut_into_equal_parts(T, parts, starts):
    steps = Segments(parts=parts)(full(T), KEY)
    assert steps.start_BK.tolist() == [starts]
    assert steps.stop_BK.tolist() == [[*starts[1:], T]]
    assert (steps.weight_BK == 1).all()


def test_a_segment_that_committed_nothing_weighs_nothing():
    # two segments of two steps; row 0 commits at step 3 only, row 1 everywhere but at 0
    steps = Segments(parts=2)(rollout([[3, 3, 3], [1, 2, 3]], [[1.0] * 3] * 2, 4), KEY)
    assert steps.start_BK.tolist() == [[0, 2]] * 2 and steps.stop_BK.tolist() == [[2, 4]] * 2
    assert steps.weight_BK.tolist() == [[0.0, 1.0], [1.0, 1.0]]


def test_more_parts_than_steps_are_the_steps():
    steps = Segments(parts=4)(full(2), KEY)
    assert steps.start_BK.tolist() == [[0, 1]]
    assert steps.stop_BK.tolist() == [[1, 2]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0]]


def test_costs_are_known_before_sampling():
    assert [Segments(parts=8).num_selected(T) for T in (4, 8, 128)] == [4, 8, 8]


def test_there_is_at_least_one_part():
    with pytest.raises(ValueError, match="parts"):
        Segments(parts=0)
