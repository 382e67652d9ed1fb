import itertools
from collections import Counter

import pytest
import torch

from dllmzoo.records import Key, take
from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout, used

Random = SELECTORS.get("random")


def test_draws_are_distinct_and_leave_empty_steps_out():
    played = rollout([[0, 1, 3, 3]] * 50, [[1.0] * 4] * 50, 5)
    for row in used(Random(steps=2)(played, KEY)):
        assert len(set(row)) == 2
        assert set(row) <= {0, 1, 3}
    for row in used(Random(steps=4)(played, KEY)):
        assert sorted(row) == [0, 1, 3]


def test_every_pair_in_every_order_is_equally_likely():
    # 6 ordered pairs of 3 steps, 1200 rows: 200 each, standard deviation sqrt(1200*5/36) = 12.9
    played = rollout([[0, 1, 2]] * 1200, [[1.0] * 3] * 1200, 3)
    counts = Counter(map(tuple, used(Random(steps=2)(played, KEY))))
    assert set(counts) == set(itertools.permutations(range(3), 2))
    assert max(abs(count - 200) for count in counts.values()) < 4 * 12.9


def test_a_row_depends_on_the_key_and_its_sample_alone():
    played = rollout([[0, 1, 2, 3]] * 6, [[1.0] * 4] * 6, 4)
    whole = Random(steps=3)(played, KEY)
    rows = torch.tensor([4, 1])
    part = Random(steps=3)(take(played, rows), KEY)
    assert torch.equal(part.start_BK, whole.start_BK[rows])
    other = Random(steps=3)(played, Key(seed=5, round=1, purpose="select"))
    assert not torch.equal(other.start_BK, whole.start_BK)


def test_at_least_one_step_is_kept():
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Random(steps=0)


def test_rescaled_steps_weigh_what_they_stand_for():
    # 4 steps committed something: 2 of them weigh 4 / 2 each, all of them 1 each
    played = rollout([[0, 1, 3, 4]] * 3, [[1.0] * 4] * 3, 5)
    found = Random(steps=2, rescale=True)(played, KEY)
    assert found.weight_BK.tolist() == [[2.0, 2.0]] * 3
    assert torch.equal(found.start_BK, Random(steps=2)(played, KEY).start_BK)
    whole = Random(steps=5, rescale=True)(played, KEY)
    assert whole.weight_BK.tolist() == [[1.0] * 4 + [0.0]] * 3
    assert Random(steps=2, rescale=True).unbiased and not Random(steps=2).unbiased


def test_costs_are_known_before_sampling():
    assert [Random(steps=8).num_selected(T) for T in (4, 16)] == [4, 8]
