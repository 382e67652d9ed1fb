import pytest
import torch

from dllmzoo.laws.selectors import Even
from dllmzoo.records import Key, take
from dllmzoo.zoo import LIKELIHOODS, SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout

Sampled = SELECTORS.get("entropy_sampled")

# entropies 3, 1, nothing, 0: with f = 0.1 and M = 3
# q = 0.9 * 3/4 + 0.1/3, 0.9 * 1/4 + 0.1/3, 0, 0.1/3
PLAYED = rollout([[0, 1, 3]], [[3.0, 1.0, 0.0]], 4)
PROB = [0.9 * 0.75 + 0.1 / 3, 0.9 * 0.25 + 0.1 / 3, 0.0, 0.1 / 3]


def given(*numbers):
    """A key that draws the given numbers for every row."""

    class Given(Key):
        def uniform(self, sample_B, *shape):
            assert shape == (len(numbers),)
            return torch.tensor(numbers).expand(len(sample_B), -1)

    return Given(0, 0, "select")


# sums of q: 0.708333, 0.966667, 0.966667, 1
FIVE = given(0.0, 0.7, 0.75, 0.99, 0.708)
CHOSEN = [0, 0, 1, 3, 0]


def test_probabilities_mix_entropy_and_an_even_share_of_the_steps_that_committed():
    assert Sampled().probabilities(PLAYED).tolist() == [pytest.approx(PROB)]
    assert Sampled(floor=1.0).probabilities(PLAYED).tolist() == [
        pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])
    ]


def test_draws_invert_the_sums_and_weigh_one_over_k_q():
    steps = Sampled(steps=5)(PLAYED, FIVE)
    assert steps.start_BK.tolist() == [CHOSEN]
    assert steps.stop_BK.tolist() == [[step + 1 for step in CHOSEN]]
    assert steps.weight_BK.tolist() == [pytest.approx([1 / (5 * PROB[s]) for s in CHOSEN])]
    assert steps.weight_BK.dtype == torch.float32


def test_no_entropy_at_all_draws_evenly():
    played = rollout([[0, 2, 2]], [[0.0, 0.0, 0.0]], 4)
    assert Sampled().probabilities(played).tolist() == [[0.5, 0.0, 0.5, 0.0]]


def test_a_sequence_that_committed_nothing_has_no_weight():
    steps = Sampled(steps=2)(rollout([[-1, -1]], [[1.0, 1.0]], 3), KEY)
    assert steps.weight_BK.tolist() == [[0.0, 0.0]]
    assert (steps.start_BK < 3).all()


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        # step 0 committed 1 and 2, step 1 committed 1.5; states of 0.2 and 0.6 nats
        ("committed_mean", [1.5 / 3, 1.5 / 3]),
        ("committed_sum", [3 / 4.5, 1.5 / 4.5]),
        ("block_mean", [0.25, 0.75]),
    ],
)
def test_entropy_can_be_taken_over_other_slots(over, expected):
    played = rollout([[0, 0, 1]], [[1.0, 2.0, 1.5]], 2, block_entropy=[[0.2, 0.6]])
    found = Sampled(over=over, floor=1e-9).probabilities(played)
    assert found.tolist() == [pytest.approx(expected)]


def test_a_number_just_below_one_draws_the_last_step():
    # ten equal steps: their float64 shares may add up to a little less than 1
    played = rollout([list(range(10))], [[0.1] * 10], 10)
    assert Sampled(steps=1)(played, given(1 - 2**-24)).start_BK.tolist() == [[9]]


def test_shares_of_draws_are_the_probabilities():
    rows = 3000
    many = take(PLAYED, torch.zeros(rows, dtype=torch.long))
    found = Sampled(steps=1)(many, Even(0, 0, "select")).start_BK
    count = torch.bincount(found.flatten(), minlength=4)
    assert (count / rows).tolist() == pytest.approx(PROB, abs=1 / rows)


def test_a_row_depends_on_the_key_and_its_sample_alone():
    played = rollout([[0, 1, 2, 3]] * 6, [[1.0, 2.0, 3.0, 4.0]] * 6, 4)
    whole, rows = Sampled(steps=3)(played, KEY), torch.tensor([4, 1])
    part = Sampled(steps=3)(take(played, rows), KEY)
    assert torch.equal(part.start_BK, whole.start_BK[rows])
    other = Sampled(steps=3)(played, Key(seed=5, round=1, purpose="select"))
    assert not torch.equal(other.start_BK, whole.start_BK)


@pytest.mark.parametrize("unit", ["step", "slot"])
def test_a_step_drawn_twice_carries_both_weights(unit):
    # draws 0, 0, 1, 3, 0: step 0 weighs 3 / (5 q), whatever a unit is
    steps = Sampled(steps=5)(PLAYED, FIVE)
    views = LIKELIHOODS.get("denoising_steps")(unit=unit, temperature=1.0).plan(
        PLAYED, steps, KEY, 1
    )
    total_BU = views.total(torch.ones_like(views.weight_BKL)) * views.weight_BU
    assert total_BU.sum().item() == pytest.approx(
        3 / (5 * PROB[0]) + 1 / (5 * PROB[1]) + 1 / (5 * PROB[3])
    )
    assert views.live_BU.sum() == (5 if unit == "step" else 3)


def test_every_draw_is_a_view():
    assert Sampled(steps=8).num_selected(4) == 8


@pytest.mark.parametrize("floor", [0.0, 1.1])
def test_the_floor_is_a_share_above_zero(floor):
    with pytest.raises(ValueError, match="floor"):
        Sampled(floor=floor)
