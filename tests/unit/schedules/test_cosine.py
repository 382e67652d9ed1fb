import math

import pytest
import torch

from dllmzoo.zoo import SCHEDULES

cosine = SCHEDULES.get("cosine")()


def test_mask_probability_is_one_minus_cosine():
    # 1 - cos(pi/6) = 1 - 0.8660254   1 - cos(pi/4) = 1 - 0.7071068
    t = torch.tensor([0.0, 1 / 3, 0.5, 1.0])
    expected = torch.tensor([0.0, 0.1339746, 0.2928932, 1.0])
    torch.testing.assert_close(cosine.mask_prob(t), expected)
    assert cosine.mask_prob(t)[-1] == 1


def test_mask_probability_does_not_cancel_near_zero():
    # 1 - cos(x) = x^2 / 2 to leading order; x = pi/2 * 1e-5
    value = cosine.mask_prob(torch.tensor(1e-5))
    assert value.item() == pytest.approx((math.pi / 2 * 1e-5) ** 2 / 2, rel=1e-5)


def test_rate_is_the_slope():
    t = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)
    slope = (cosine.mask_prob(t + 1e-6) - cosine.mask_prob(t - 1e-6)) / 2e-6
    torch.testing.assert_close(cosine.rate(t), slope, atol=1e-8, rtol=0)


def test_commits_few_tokens_first():
    # still masked after step i of 4: 16 cos(pi i / 8) = 14.8, 11.3, 6.1, 0 -> 14, 11, 6, 0
    assert cosine.commits(16, 4) == [2, 3, 5, 6]


def test_one_commit_a_step_where_steps_are_many():
    assert cosine.commits(4, 4) == [1, 1, 1, 1]
    assert cosine.commits(2, 4) == [1, 1, 0, 0]
    assert cosine.commits(0, 3) == [0, 0, 0]


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 16, 40])
def test_commits_add_up_and_use_as_many_steps_as_they_can(steps):
    for num_masked in range(40):
        counts = cosine.commits(num_masked, steps)
        assert len(counts) == steps
        assert sum(counts) == num_masked
        assert sum(count > 0 for count in counts) == min(num_masked, steps)
