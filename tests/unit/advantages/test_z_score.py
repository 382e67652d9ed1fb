"""Z-scores: both deviations, what is added, the floor, whose deviation."""

import math

import pytest
import torch
from torch import distributed

from dllmzoo.zoo import ADVANTAGES
from tests.strategies import credit

ZScore = ADVANTAGES.get("z_score")


def of(advantage, reward, G, counted=None):
    counted_B = None if counted is None else torch.tensor(counted)
    return credit(advantage, torch.tensor(reward), None, G, counted_B=counted_B).flatten().tolist()


def test_the_sample_deviation_plus_a_little_is_the_default():
    # mean 2, squares 1 + 1 + 4 = 6 over n - 1 = 2: sqrt 3
    scale = 1 / (math.sqrt(3) + 1e-4)
    assert of(ZScore(), [1.0, 1.0, 4.0], 3) == pytest.approx([-scale, -scale, 2 * scale])


def test_the_population_deviation_divides_by_n():
    # 6 over n = 3: sqrt 2
    scale = 1 / math.sqrt(2)
    found = of(ZScore(std="population", added=0.0), [1.0, 1.0, 4.0], 3)
    assert found == pytest.approx([-scale, -scale, 2 * scale])


def test_a_floor_bounds_the_deviation_and_nothing_is_added():
    # deviation of -+ 0.001 is 0.0014: the floor of 0.01 holds; that of -+ 1 is 1.414
    assert of(ZScore(floor=0.01), [0.0, 0.002], 2) == pytest.approx([-0.1, 0.1], rel=1e-4)
    assert of(ZScore(floor=0.01), [0.0, 2.0], 2) == pytest.approx([-(2**-0.5), 2**-0.5])


def test_the_batch_has_one_deviation_about_its_common_mean():
    # groups 0, 2 and 4, 4: gaps -1, 1, 0, 0; all four: mean 2.5, squares 6.25 + .25 + 2.25 * 2
    scale = 1 / (math.sqrt(11 / 3) + 1e-4)
    found = of(ZScore(scope="batch"), [0.0, 2.0, 4.0, 4.0], 2)
    assert found == pytest.approx([-scale, scale, 0.0, 0.0])
    assert ZScore(scope="batch").compares_groups and not ZScore().compares_groups


@pytest.mark.parametrize(
    "advantage",
    [ZScore(), ZScore(added=0.0), ZScore(std="population", added=0.0), ZScore(scope="batch")],
    ids=repr,
)
def test_equal_rewards_give_exactly_zero(advantage):
    assert of(advantage, [0.1] * 6, 3) == [0.0] * 6


def test_abstained_rows_are_out_of_both_statistics():
    kept = of(ZScore(), [1.0, 4.0], 2)
    assert of(ZScore(), [1.0, 90.0, 4.0], 3, [True, False, True]) == [kept[0], 0.0, kept[1]]
    batch = ZScore(scope="batch")
    found = of(batch, [1.0, 4.0, 3.0, 9.0], 2, [True, True, True, False])
    # counted: 1, 4, 3 with mean 8/3 and squares (25 + 16 + 1) / 9 over 2
    scale = 1 / (math.sqrt(42 / 18) + 1e-4)
    assert found == pytest.approx([-1.5 * scale, 1.5 * scale, 0.0, 0.0])


@pytest.mark.parametrize("counted", [[True, False], [False, False]])
def test_a_group_with_fewer_than_two_counted_rows_gives_nothing(counted):
    for advantage in (ZScore(added=0.0), ZScore(scope="batch", added=0.0)):
        assert of(advantage, [3.0, 5.0], 2, counted) == [0.0, 0.0]


def test_the_batch_is_that_of_all_processes(monkeypatch):
    # two processes hold one group each; columns are reward and whether it counts
    parts = [torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.tensor([[4.0, 1.0], [5.0, 1.0]])]
    handed = []

    def all_gather(found, mine):
        handed.append(mine.tolist())
        for into, part in zip(found, parts, strict=True):
            into.copy_(part)

    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_gather", all_gather)
    found = [of(ZScore(scope="batch"), part[:, 0].tolist(), 2) for part in parts]
    assert handed == [part.tolist() for part in parts]
    # gaps -+ 1 and -+ 0.5; mean 2.75, squares 7.5625 + 0.5625 + 1.5625 + 5.0625 over 3
    scale = 1 / (math.sqrt(14.75 / 3) + 1e-4)
    assert found[0] == pytest.approx([-scale, scale])
    assert found[1] == pytest.approx([-0.5 * scale, 0.5 * scale])


@pytest.mark.parametrize("settings", [{"added": -1e-4}, {"floor": 0.0}, {"std": "both"}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        ZScore(**settings)
