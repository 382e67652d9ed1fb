import pytest
import torch
from pydantic import ValidationError

from dllmzoo.zoo import SCHEDULES

LogLinear = SCHEDULES.get("log_linear")


def test_scale_one_masks_like_linear():
    t = torch.linspace(0, 1, 11)
    assert torch.equal(LogLinear().mask_prob(t), t)
    assert torch.equal(LogLinear().rate(t), torch.ones(11))
    assert LogLinear().commits(12, 4) == [3, 3, 3, 3]


def test_total_noise_is_the_scaled_logarithm():
    # sigma(.5) = -3 ln .5 = 2.0794; 1 - exp(-sigma) = 1 - .5^3 = .875
    assert LogLinear(scale=3.0).mask_prob(torch.tensor(0.5)).item() == pytest.approx(0.875)
    # 3 * .5^2 = .75
    assert LogLinear(scale=3.0).rate(torch.tensor(0.5)).item() == pytest.approx(0.75)
    assert LogLinear(scale=3.0).mask_prob(torch.tensor([0.0, 1.0])).tolist() == [0.0, 1.0]


def test_it_is_the_power_curve_from_the_other_end():
    t = torch.linspace(0, 1, 11, dtype=torch.float64)
    power = SCHEDULES.get("power")(exponent=2.5)
    torch.testing.assert_close(LogLinear(scale=2.5).mask_prob(t), 1 - power.mask_prob(1 - t))


def test_a_small_time_does_not_cancel():
    assert LogLinear(scale=2.0).mask_prob(torch.tensor(1e-7)).item() == pytest.approx(2e-7)


def test_a_large_scale_commits_many_tokens_first():
    # still masked of 16 after step i of 4: 16 (1 - i/4)^2 = 9, 4, 1, 0
    assert LogLinear(scale=2.0).commits(16, 4) == [7, 5, 3, 1]


def test_a_scale_below_one_is_refused():
    with pytest.raises(ValidationError):
        LogLinear(scale=0.5)
