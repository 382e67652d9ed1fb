import torch

from dllmzoo.selectors._steps import mean_over_steps, total_over_steps
from tests.unit.selectors.trajectories import rollout


def test_values_are_averaged_over_the_slots_of_each_step():
    # row 0: step 0 holds 1 and 3, step 2 holds 5; row 1: step 1 holds 2; slot 2 is never committed
    played = rollout([[0, 2, 0], [1, 1, -1]], [[1.0, 5.0, 3.0], [2.0, 4.0, 50.0]], 3)
    mean_BT, count_BT = mean_over_steps(played.entropy_BL, played)
    assert mean_BT.tolist() == [[2.0, 0.0, 5.0], [0.0, 3.0, 0.0]]
    assert count_BT.tolist() == [[2, 0, 1], [0, 2, 0]]
    assert mean_BT.dtype == torch.float32


def test_values_are_summed_over_the_slots_of_each_step():
    played = rollout([[0, 2, 0]], [[1.0, 5.0, 3.0]], 3)
    total_BT, _ = total_over_steps(played.entropy_BL, played)
    assert total_BT.tolist() == [[4.0, 0.0, 5.0]]


def test_what_was_never_committed_may_be_anything():
    played = rollout([[0, -1]], [[1.0, float("nan")]], 1)
    assert mean_over_steps(played.entropy_BL, played)[0].tolist() == [[1.0]]
