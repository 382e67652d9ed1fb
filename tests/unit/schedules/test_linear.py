import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.zoo import SCHEDULES


def test_masks_in_proportion_to_time():
    t = torch.tensor([[0.0, 0.25], [0.5, 1.0]])
    assert torch.equal(SCHEDULES.get("linear")().mask_prob(t), t)
    assert torch.equal(SCHEDULES.get("linear")().rate(t), torch.ones(2, 2))


@pytest.mark.parametrize(
    ("num_masked", "steps", "expected"),
    [(8, 3, [3, 3, 2]), (2, 4, [1, 1, 0, 0]), (0, 2, [0, 0]), (5, 1, [5]), (6, 3, [2, 2, 2])],
)
def test_what_does_not_divide_goes_to_the_first_steps(num_masked, steps, expected):
    assert SCHEDULES.get("linear")().commits(num_masked, steps) == expected


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_no_steps_are_refused(name):
    with pytest.raises(UsageError, match="over 0 steps; use at least 1"):
        SCHEDULES.get(name)().commits(4, 0)
    with pytest.raises(UsageError, match="-1 masked tokens"):
        SCHEDULES.get(name)().commits(-1, 2)
