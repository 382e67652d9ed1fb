import pytest
import torch

from dllmzoo.samplers._block_commits import Choice
from dllmzoo.samplers._candidates import Candidates


def chosen(rule, values, count=1, at=None, threshold=0.5, bound=0.0):
    """Slots that a row commits whose masked slots have these confidences and entropies."""
    at_RN = torch.ones(1, len(values), dtype=torch.bool)
    if at is not None:
        at_RN = torch.tensor([[slot in at for slot in range(len(values))]])
    value_S = torch.tensor(values)[at_RN[0]]
    found = Candidates(value_S.long(), value_S, value_S, value_S, value_S)
    choice = Choice(rule, threshold, bound)
    return choice(found, at_RN, torch.tensor([count]))[0].nonzero()[:, 0].tolist()


def test_static_takes_the_most_confident():
    assert chosen("static", [0.3, 0.9, 0.5, 0.9]) == [1]
    assert chosen("static", [0.3, 0.9, 0.5, 0.9], 3) == [1, 2, 3]
    assert chosen("static", [0.3, 0.9, 0.5, 0.9], 3, at={0, 2}) == [0, 2]


def test_sequential_takes_the_leftmost_masked():
    assert chosen("sequential", [0.3, 0.9, 0.5, 0.9], 2, at={1, 2, 3}) == [1, 2]
    assert chosen("sequential", [0.3, 0.9, 0.5, 0.9], 9, at={1, 3}) == [1, 3]


def test_dynamic_takes_all_above_the_threshold_or_else_the_most_confident():
    assert chosen("dynamic", [0.75, 0.9, 0.5, 0.6]) == [0, 1, 3]  # .5 is not above .5
    assert chosen("dynamic", [0.75, 0.9, 0.5, 0.6], 3) == [0, 1, 3]
    assert chosen("dynamic", [0.75, 0.9, 0.5, 0.6], 4) == [0, 1, 2, 3]  # three are not enough
    assert chosen("dynamic", [0.25, 0.3, 0.5, 0.4], 2) == [2, 3]
    assert chosen("dynamic", [0.9, 0.9, 0.9, 0.9], at={2}) == [2]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(0.0, [2]), (0.124, [2]), (0.125, [0, 2]), (0.375, [0, 2, 3]), (0.874, [0, 2, 3]),
     (0.875, [0, 1, 2, 3])],
)  # fmt: skip
def test_entropies_but_for_the_largest_stay_within_the_bound(bound, expected):
    # ascending .125, .25, .5, 1: without the largest 0, .125, .375, .875
    assert chosen("entropy_bound", [0.25, 1.0, 0.125, 0.5], bound=bound) == expected


def test_the_bound_looks_at_masked_slots_alone():
    assert chosen("entropy_bound", [0.25, 0.0, 0.125, 0.5], bound=0.125, at={0, 3}) == [0]
    assert chosen("entropy_bound", [0.25, 0.0, 0.125, 0.5], bound=9.0, at={0, 3}) == [0, 3]


@pytest.mark.parametrize("rule", ["static", "dynamic", "sequential", "entropy_bound"])
def test_a_network_of_nan_still_gets_on(rule):
    assert len(chosen(rule, [float("nan")] * 3, at={1, 2})) == 1


def test_a_bound_of_0_takes_one_however_small_the_lowest_entropy_is():
    assert chosen("entropy_bound", [1.0, 1e-18, 2.0], bound=0.0) == [1]
