"""What was spent until each evaluation."""

from dllmzoo.lab.curves import Point, curve, spent

ROWS = [
    {"round": 0, "update": 0, "eval/solved_rate": 0.1, "time/evaluate": 9.0},
    {"round": 1, "update": 2, "flops": 10.0, "time/rollout": 1.0, "time/update": 2.0,
     "time/elapsed": 14.0},
    {"round": 2, "update": 4, "flops": 20.0, "time/rollout": 1.5, "time/evaluate": 9.0,
     "time/elapsed": 25.0, "eval/solved_rate": 0.3},
    {"round": 3, "update": 6, "flops": 5.0, "eval/solved_rate": None},
]  # fmt: skip


def test_costs_add_up_to_each_evaluation_without_its_own_time():
    # after round 2: 10 + 20 FLOPs, 1 + 2 + 1.5 s, 2 * 8 samples
    assert curve(ROWS, "eval/solved_rate", 8) == [
        Point(0, 0, 0, 0.0, 0.0, 0.1), Point(2, 4, 16, 30.0, 4.5, 0.3),
    ]  # fmt: skip


def test_the_whole_run_is_counted_whenever_it_was_evaluated():
    assert spent(ROWS, 8) == {"flops": 35.0, "samples": 24, "updates": 6, "seconds": 4.5}
    assert spent([], 8) == {"flops": 0, "samples": 0, "updates": 0, "seconds": 0}
