import pytest
import torch

from dllmzoo.zoo import SCHEDULES

ascending = SCHEDULES.get("ascending")()


@pytest.mark.parametrize(
    ("tokens", "steps", "expected"),
    [
        (16, 4, [1, 2, 4, 9]),
        (128, 7, [1, 2, 4, 8, 16, 32, 65]),
        (256, 8, [1, 2, 4, 8, 16, 32, 64, 129]),
        (512, 9, [1, 2, 4, 8, 16, 32, 64, 128, 257]),
        (100, 6, [1, 2, 4, 8, 16, 69]),
        (3, 1, [3]),
        (1, 1, [1]),
    ],
)
def test_step_sizes_double_and_the_last_takes_the_rest(tokens, steps, expected):
    assert ascending.commits(tokens, steps) == expected


def test_other_numbers_of_steps_follow_the_same_curve():
    # 2^(7 i/4) - 1 = 2.36, 10.3, 37.05: masked of 128 rounded down 125, 117, 90
    assert ascending.commits(128, 4) == [3, 8, 27, 90]
    # 2^(4 i/8) - 1 = .41, 1, 1.83, 3, 4.66, 7, 10.3 of 16, one token a step at least
    assert ascending.commits(16, 8) == [1, 1, 1, 1, 1, 2, 4, 5]
    assert ascending.commits(2, 4) == [1, 1, 0, 0]
    assert ascending.commits(0, 3) == [0, 0, 0]


def test_the_noise_doubles_at_equal_time_steps():
    # (2^(S t) - 1) / (2^S - 1) with S = 3: 1/7, 3/7, 1 at t = 1/3, 2/3, 1
    schedule = SCHEDULES.get("ascending")(doublings=3.0)
    t = torch.tensor([0.0, 1 / 3, 2 / 3, 1.0], dtype=torch.float64)
    assert schedule.mask_prob(t).tolist() == pytest.approx([0, 1 / 7, 3 / 7, 1])
    # rate ln 8 * 2^(3 t) / 7 at t = 1/3: 2.0794 * 2 / 7 = .594126
    assert schedule.rate(t)[1].item() == pytest.approx(0.594126, abs=1e-6)
