import pytest

from dllmzoo.errors import UsageError
from dllmzoo.samplers._blocks import check_canvas, plan_steps
from dllmzoo.zoo import SCHEDULES

linear = SCHEDULES.get("linear")()


class Wrong:
    def commits(self, num_masked, steps):
        return [num_masked, 1, *[0] * (steps - 2)]


@pytest.mark.parametrize(
    ("N", "W", "T", "expected"),
    [
        # 3 blocks of 8, 8, 4; steps 7 = 3 + 2 + 2; 8 = 3+3+2, 8 = 4+4, 4 = 2+2
        (20, 8, 7, [(0, 3), (0, 3), (0, 2), (1, 4), (1, 4), (2, 2), (2, 2)]),
        # 2 blocks of 3; steps 5 = 3 + 2; 3 = 1+1+1, 3 = 2+1
        (6, 3, 5, [(0, 1), (0, 1), (0, 1), (1, 2), (1, 1)]),
        # one block, more steps than tokens: the last steps commit nothing
        (2, 2, 4, [(0, 1), (0, 1), (0, 0), (0, 0)]),
        (5, 1, 5, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]),
        # no number of steps: one token a step, also where the last block is shorter
        (4, 3, None, [(0, 1), (0, 1), (0, 1), (1, 1)]),
    ],
)
def test_steps_are_shared_over_blocks_and_inside_them(N, W, T, expected):
    assert plan_steps(N, W, T, linear) == expected


@pytest.mark.parametrize("T", [3, 4, 7, 20, 50])
@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_every_slot_is_committed_once_and_blocks_come_in_order(T, name):
    plan = plan_steps(20, 8, T, SCHEDULES.get(name)())
    assert len(plan) == T
    assert [block for block, _ in plan] == sorted(block for block, _ in plan)
    assert [sum(c for b, c in plan if b == block) for block in range(3)] == [8, 8, 4]


def test_a_block_longer_than_the_answer_is_refused():
    with pytest.raises(UsageError, match=r"block_length: 20 \(one block\) or answer_length: 64"):
        check_canvas(20, 64, 20)


def test_fewer_steps_than_blocks_are_refused():
    # ceil(20 / 8) = 3 blocks; ceil(20 / 2) = 10 tokens in each of 2 blocks
    with pytest.raises(UsageError, match="use steps: 3 or block_length: 10"):
        check_canvas(20, 8, 2)


def test_a_schedule_that_loses_count_is_refused():
    with pytest.raises(UsageError, match=r"commits of Wrong for 4 tokens in 2 steps are \[4, 1\]"):
        plan_steps(4, 4, 2, Wrong())
