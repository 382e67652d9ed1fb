import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.zoo import SCHEDULES

ShareOfRest = SCHEDULES.get("share_of_rest")


def test_noise_is_linear():
    t = torch.tensor([0.0, 0.25, 1.0])
    assert torch.equal(ShareOfRest().mask_prob(t), t)
    assert ShareOfRest().rate(t).tolist() == [1.0, 1.0, 1.0]


def test_a_step_commits_its_share_of_the_rest_rounded_down():
    # time falls by .1665: 1, .8335, .667, .5005, .334, .1675, .001
    # 12 * .1665 = 1.998; 11 * .1665/.8335 = 2.197; 9 * .1665/.667 = 2.247;
    # 7 * .1665/.5005 = 2.329; 5 * .1665/.334 = 2.493; the last 3
    assert ShareOfRest().commits(12, 6) == [1, 2, 2, 2, 2, 3]
    # 6 * .1665 = .999; 6 * .1998 = 1.199; 5 * .2496; 4 * .3327; 3 * .4985 = 1.496; the last 2
    assert ShareOfRest().commits(6, 6) == [0, 1, 1, 1, 1, 2]


def test_one_token_a_step_starts_late_and_ends_with_two():
    # 12 * .08325 = .999, then 12 * .08325/.91675 = 1.09
    assert ShareOfRest().commits(12, 12) == [0, *[1] * 10, 2]
    # more steps than tokens: shares of 1/20 and more, 3 * .0525 = .16 ... : 3 / k is below 1 until
    # k = 3 steps are left, when 3 * .3332 = .9996 still rounds to 0, and 3 * .4985 = 1.5
    assert ShareOfRest(eps=1e-3).commits(3, 20) == [*[0] * 18, 1, 2]


def test_the_only_step_commits_everything():
    assert ShareOfRest().commits(7, 1) == [7]
    assert ShareOfRest().commits(0, 3) == [0, 0, 0]


def test_a_late_end_of_time_leaves_more_to_the_last_step():
    # 1, .75, .5: 12 * .25 = 3, then all 9
    assert ShareOfRest(eps=0.5).commits(12, 2) == [3, 9]
    # 1, .5, 0: 12 * .5 = 6, then 6
    assert ShareOfRest(eps=0.0).commits(12, 2) == [6, 6]


def test_numbers_that_cannot_be_are_refused():
    for eps in (-0.1, 1.0):
        with pytest.raises(ValidationError):
            ShareOfRest(eps=eps)
    with pytest.raises(UsageError, match="shared over 0 steps"):
        ShareOfRest().commits(3, 0)


def test_the_name_of_the_paper_is_an_alias():
    assert SCHEDULES.get("dream") is ShareOfRest
