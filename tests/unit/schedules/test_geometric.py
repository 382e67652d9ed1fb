import math

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.zoo import SCHEDULES

Geometric = SCHEDULES.get("geometric")


def test_total_noise_grows_by_equal_factors():
    # sigma runs 1, 2, 4 at t = 0, 1/2, 1; 1 - exp(-sigma) = .632121, .864665, .981684
    # shifted and scaled: (.864665 - .632121) / (.981684 - .632121) = .665241
    schedule = Geometric(sigma_min=1.0, sigma_max=4.0)
    found = schedule.mask_prob(torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64))
    assert found.tolist() == pytest.approx([0.0, 0.665241, 1.0], abs=1e-6)


def test_rate_is_the_slope():
    # exp(-2) * 2 * ln 4 / (.981684 - .632121) = 1.073421
    schedule = Geometric(sigma_min=1.0, sigma_max=4.0)
    expected = math.exp(-2) * 2 * math.log(4) / (math.exp(-1) - math.exp(-4))
    found = schedule.rate(torch.tensor(0.5, dtype=torch.float64)).item()
    assert found == pytest.approx(expected) == pytest.approx(1.073421, abs=1e-6)


def test_the_ends_are_exact_in_float32():
    assert Geometric().mask_prob(torch.tensor([0.0, 1.0])).tolist() == [0.0, 1.0]


def test_a_small_time_does_not_cancel():
    # near 0 the law is rate(0) * t
    t = torch.tensor(1e-6)
    slope = Geometric().rate(torch.tensor(0.0)).item()
    assert Geometric().mask_prob(t).item() == pytest.approx(slope * 1e-6, rel=1e-4)


def test_most_tokens_are_committed_where_sigma_passes_one():
    # the defaults pass 1 at t = ln(1e4) / ln(2e5) = .755: steps 5 and 6 of 8
    counts = Geometric().commits(32, 8)
    assert sum(counts) == 32 and sum(counts[5:7]) > 16


def test_noise_that_does_not_grow_is_refused():
    with pytest.raises(ValidationError, match=r"sigma_max 0.5 is not above sigma_min 0.5"):
        Geometric(sigma_min=0.5, sigma_max=0.5)
