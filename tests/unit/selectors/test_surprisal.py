import math
from collections import Counter
from dataclasses import replace

import pytest
import torch

from dllmzoo.records import Key, take
from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout, used

Surprisal = SELECTORS.get("surprisal")


def played(reveal, nats, num_steps, valid=None, rows=1):
    """Slots of the given surprisal in nats."""
    made = rollout([reveal] * rows, [[0.0] * len(nats)] * rows, num_steps, valid=valid)
    logprob_BL = torch.tensor([[-50.0, *(-n for n in nats)]] * rows)
    return replace(made, logprob_BL=logprob_BL)


# step 0: (1 + 3) / 2 = 2 nats, step 1: 2.5, step 3: 0.5; the prompt's 50 nats are never read
PLAYED = played([0, 0, 1, 3], [1.0, 3.0, 2.5, 0.5], 4)


def test_zero_temperature_takes_the_most_surprising_steps():
    steps = Surprisal(steps=2, temperature=0.0)(PLAYED, KEY)
    assert steps.start_BK.tolist() == [[1, 0]] and steps.weight_BK.tolist() == [[1.0, 1.0]]
    assert used(Surprisal(steps=4, temperature=0.0)(PLAYED, KEY)) == [[1, 0, 3]]


def test_tokens_behind_the_end_do_not_count():
    # the second slot of step 0 and the only one of step 3 lie behind the end: 1 nat and no nats
    cut = played([0, 0, 1, 3], [1.0, 3.0, 2.5, 9.0], 4, valid=[[True, False, True, False]])
    assert used(Surprisal(steps=3, temperature=0.0)(cut, KEY)) == [[1, 0]]
    for row in used(Surprisal(steps=3)(cut, KEY)):
        assert sorted(row) == [0, 1]


def test_ties_go_to_the_smaller_step():
    equal = played([2, 0, 1], [0.3, 0.3, 0.3], 3)
    assert used(Surprisal(steps=3, temperature=0.0)(equal, KEY)) == [[0, 1, 2]]


def test_first_draws_follow_the_softmax_and_later_ones_what_is_left():
    # w = ln 6, ln 3, ln 1 at temperature 1: 0.6, 0.3, 0.1; after 0: 0.75, 0.25
    rows = 4000
    many = played([0, 1, 2], [math.log(6), math.log(3), 0.0], 3, rows=rows)
    found = used(Surprisal(steps=2)(many, KEY))
    expected = {
        (0, 1): 0.6 * 0.75, (0, 2): 0.6 * 0.25, (1, 0): 0.3 * 6 / 7, (1, 2): 0.3 / 7,
        (2, 0): 0.1 * 6 / 9, (2, 1): 0.1 * 3 / 9,
    }  # fmt: skip
    counts = Counter(map(tuple, found))
    assert set(counts) == set(expected)
    for pair, prob in expected.items():
        assert abs(counts[pair] - rows * prob) < 4 * math.sqrt(rows * prob)


def test_temperature_flattens_the_draws():
    rows = 1500
    many = played([0, 1, 2], [9.0, 3.0, 0.0], 3, rows=rows)
    counts = Counter(row[0] for row in used(Surprisal(steps=1, temperature=1e4)(many, KEY)))
    assert all(abs(counts[step] - rows / 3) < 4 * math.sqrt(rows * 2 / 9) for step in range(3))


def test_a_row_depends_on_the_key_and_its_sample_alone():
    many = played([0, 1, 2, 3], [1.0, 1.1, 1.2, 1.3], 4, rows=6)
    whole, rows = Surprisal(steps=2)(many, KEY), torch.tensor([5, 0])
    assert torch.equal(Surprisal(steps=2)(take(many, rows), KEY).start_BK, whole.start_BK[rows])
    other = Surprisal(steps=2)(many, Key(5, 1, "select"))
    assert not torch.equal(other.start_BK, whole.start_BK)


def test_a_number_of_zero_is_a_number():
    class Zero(Key):
        def uniform(self, sample_B, *shape):
            return torch.zeros(len(sample_B), *shape)

    assert used(Surprisal(steps=3)(PLAYED, Zero(0, 0, "select"))) == [[1, 0, 3]]


def test_costs_are_known_before_sampling():
    assert [Surprisal().num_selected(T) for T in (2, 16)] == [2, 4]


def test_temperature_is_not_negative():
    with pytest.raises(ValueError, match="temperature"):
        Surprisal(temperature=-1.0)
