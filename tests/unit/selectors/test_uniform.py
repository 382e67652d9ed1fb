import pytest

from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout, used

Uniform = SELECTORS.get("uniform")


def full(num_steps, rows=1):
    order = [list(range(num_steps))] * rows
    return rollout(order, [[1.0] * num_steps] * rows, num_steps)


@pytest.mark.parametrize(
    ("T", "K", "expected"),
    [
        (8, 1, [4]),  # 0.5 * 8 = 4
        (8, 2, [2, 6]),  # 0.5 * 4 = 2, 1.5 * 4 = 6
        (8, 3, [1, 4, 6]),  # 0.5, 1.5, 2.5 times 8/3 = 1.33, 4, 6.67
        (8, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (2, 5, [0, 1]),
    ],
)
def test_the_middle_of_every_part_is_kept(T, K, expected):
    assert used(Uniform(steps=K)(full(T), KEY)) == [expected]


@pytest.mark.parametrize(
    ("T", "K", "expected"),
    [
        # trunc(linspace(0, T-2, K-1)) and the last step
        (8, 1, [7]),
        (8, 2, [0, 7]),
        (8, 3, [0, 6, 7]),
        (128, 8, [0, 21, 42, 63, 84, 105, 126, 127]),
        (8, 5, [0, 2, 4, 6, 7]),
        (8, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (1, 1, [0]),
        (2, 4, [0, 1]),
    ],
)
def test_the_last_step_can_be_forced_as_released(T, K, expected):
    assert used(Uniform(steps=K, force_last=True)(full(T), KEY)) == [expected]


def test_every_sequence_gets_the_same_steps_and_empty_ones_weigh_nothing():
    # T = 4, K = 2: steps 1 and 3; the second row commits nothing at step 3
    steps = Uniform(steps=2)(rollout([[0, 1, 3], [1, 1, 2]], [[1.0] * 3] * 2, 4), KEY)
    assert steps.start_BK.tolist() == [[1, 3], [1, 3]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0], [1.0, 0.0]]


def test_columns_beyond_the_steps_are_empty_spans():
    steps = Uniform(steps=3)(full(2), KEY)
    assert steps.start_BK.tolist() == [[0, 1, 2]]
    assert steps.stop_BK.tolist() == [[1, 2, 2]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0, 0.0]]


def test_at_least_one_step_is_kept():
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Uniform(steps=0)
