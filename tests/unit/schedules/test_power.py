import pytest
import torch
from pydantic import ValidationError

from dllmzoo.zoo import SCHEDULES

Power = SCHEDULES.get("power")


def test_mask_probability_is_a_power_of_time():
    # .5^2 = .25, .5^3 = .125, .25^.5 = .5
    assert Power().mask_prob(torch.tensor([0.0, 0.5, 1.0])).tolist() == [0.0, 0.25, 1.0]
    assert Power(exponent=3).mask_prob(torch.tensor(0.5)).item() == 0.125
    assert Power(exponent=0.5).mask_prob(torch.tensor(0.25)).item() == 0.5


def test_rate_is_the_slope():
    # 3 * .5^2 = .75
    assert Power(exponent=3).rate(torch.tensor(0.5)).item() == pytest.approx(0.75)
    # weight rate / mask_prob is exponent / t
    t = torch.tensor([0.1, 0.7])
    weight = Power(exponent=3).rate(t) / Power(exponent=3).mask_prob(t)
    torch.testing.assert_close(weight, 3 / t)


def test_a_large_exponent_commits_few_tokens_first_and_a_small_one_many():
    # 16 (i/4)^2 = 1, 4, 9, 16
    assert Power(exponent=2).commits(16, 4) == [1, 3, 5, 7]
    # 16 (i/4)^.5 = 8, 11.3, 13.9, 16; masked rounded down 8, 4, 2, 0
    assert Power(exponent=0.5).commits(16, 4) == [8, 4, 2, 2]
    assert Power(exponent=1).commits(16, 4) == [4, 4, 4, 4]


@pytest.mark.parametrize("exponent", [0.0, -1.0, float("inf")])
def test_an_exponent_that_gives_no_law_is_refused(exponent):
    with pytest.raises(ValidationError):
        Power(exponent=exponent)
