from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout


def test_every_step_in_the_order_of_time_and_empty_ones_weigh_nothing():
    steps = SELECTORS.get("all")()(rollout([[3, 0, 1]], [[5.0, 1.0, 2.0]], 4), KEY)
    assert steps.start_BK.tolist() == [[0, 1, 2, 3]]
    assert steps.stop_BK.tolist() == [[1, 2, 3, 4]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0, 0.0, 1.0]]


def test_it_costs_every_step():
    assert SELECTORS.get("all")().num_selected(7) == 7
