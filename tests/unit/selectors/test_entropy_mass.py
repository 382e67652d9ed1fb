import pytest

from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout, used

Mass = SELECTORS.get("entropy_mass")

# entropies 1, 4, nothing, 3, 2: ranked 1, 3, 4, 0 with sums 4, 7, 9, 10 of 10
PLAYED = rollout([[0, 1, 3, 4]], [[1.0, 4.0, 3.0, 2.0]], 5)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.3, [1]),
        (0.4, [1]),
        (0.41, [1, 3]),
        (0.7, [1, 3]),
        (0.75, [1, 3, 4]),
        (0.95, [1, 3, 4, 0]),
        (1.0, [1, 3, 4, 0]),
    ],
)
def test_the_fewest_steps_that_hold_the_share_are_kept(share, expected):
    assert used(Mass(share=share)(PLAYED, KEY)) == [expected]


def test_columns_are_entropy_ranks_and_weigh_nothing_beyond_the_share():
    steps = Mass(share=0.7)(PLAYED, KEY)
    assert steps.start_BK.tolist() == [[1, 3, 4, 0, 2]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0, 0.0, 0.0, 0.0]]


def test_every_sequence_has_its_own_number():
    both = rollout([[0, 1, 2, 3]] * 2, [[8.0, 1.0, 0.5, 0.5], [1.0] * 4], 4)
    # 0.7 of 10 is held by the first step; 0.7 of 4 takes three equal ones
    assert used(Mass(share=0.7)(both, KEY)) == [[0], [0, 1, 2]]


def test_the_number_of_steps_can_be_limited():
    steps = Mass(share=0.95, steps=2)(PLAYED, KEY)
    assert steps.start_BK.tolist() == [[1, 3]]
    assert used(Mass(share=0.4, steps=2)(PLAYED, KEY)) == [[1]]
    wide = Mass(share=1.0, steps=7)(PLAYED, KEY)
    assert wide.start_BK.shape == (1, 7) and used(wide) == [[1, 3, 4, 0]]


def test_the_whole_share_keeps_steps_without_entropy_too():
    played = rollout([[0, 1, 2]], [[0.0, 2.0, 0.0]], 3)
    assert used(Mass(share=1.0)(played, KEY)) == [[1, 0, 2]]
    assert used(Mass(share=0.999)(played, KEY)) == [[1]]


def test_where_nothing_is_uncertain_the_first_step_stands_for_all():
    played = rollout([[2, 1]], [[0.0, 0.0]], 3)
    assert used(Mass(share=0.5)(played, KEY)) == [[1]]


def test_a_sequence_that_committed_nothing_keeps_nothing():
    assert used(Mass()(rollout([[-1]], [[1.0]], 2), KEY)) == [[]]


def test_the_entropy_of_states_can_be_used():
    played = rollout([[0, 1, 3]], [[9.0, 1.0, 1.0]], 4, block_entropy=[[0.2, 1.0, 7.0, 0.8]])
    # the state of step 2 has 7 nats, but nothing was committed: 1 + 0.8 of 2
    assert used(Mass(share=0.85, over="block_mean")(played, KEY)) == [[1, 3]]


def test_costs_at_most_every_step():
    assert Mass().num_selected(6) == 6
    assert Mass(steps=4).num_selected(6) == 4 and Mass(steps=4).num_selected(2) == 2


@pytest.mark.parametrize("share", [0.0, 1.2])
def test_the_share_is_above_zero_and_at_most_one(share):
    with pytest.raises(ValueError, match="share"):
        Mass(share=share)
