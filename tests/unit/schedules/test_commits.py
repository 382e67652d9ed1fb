from dllmzoo.schedules._commits import spread


def test_a_curve_in_a_hurry_still_leaves_a_token_for_every_step():
    # everything committed at once would leave steps 2 and 3 without work: 6 = 4 + 1 + 1
    assert spread(6, 3, lambda progress: (progress > 0).double()) == [4, 1, 1]


def test_a_curve_that_waits_still_commits_a_token_every_step():
    assert spread(6, 3, lambda progress: (progress >= 1).double()) == [1, 1, 4]


def test_rounding_of_the_curve_loses_no_token():
    # 3 * (1 - 2/3) is 1.0000000000000002 or 0.9999999999999998: one token either way
    assert spread(3, 3, lambda progress: progress) == [1, 1, 1]
    assert spread(10, 10, lambda progress: progress) == [1] * 10
