import pytest
import torch

from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout, used

EntropyGate = SELECTORS.get("entropy_gate")

# states of 0.9, 0.5, 0.7 and 0.2 nats; step 2 commits nothing
PLAYED = rollout([[0, 1, 3]], [[9.0, 9.0, 9.0]], 4, block_entropy=[[0.9, 0.5, 0.7, 0.2]])


def test_a_step_is_kept_iff_its_state_is_above_the_threshold():
    steps = EntropyGate(threshold=0.5)(PLAYED, KEY)
    assert steps.start_BK.tolist() == [[0, 1, 2, 3]]
    assert steps.stop_BK.tolist() == [[1, 2, 3, 4]]
    assert steps.weight_BK.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert used(EntropyGate(threshold=0.1)(PLAYED, KEY)) == [[0, 1, 3]]


def test_zero_keeps_every_state_with_any_doubt():
    played = rollout([[0, 1]], [[1.0, 1.0]], 2, block_entropy=[[0.1, 0.0]])
    assert used(EntropyGate(threshold=0.0)(played, KEY)) == [[0]]


def test_entropies_of_what_was_committed_do_not_matter():
    other = rollout([[0, 1, 3]], [[0.0, 0.1, 5.0]], 4, block_entropy=[[0.9, 0.5, 0.7, 0.2]])
    found, straight = EntropyGate()(other, KEY), EntropyGate()(PLAYED, KEY)
    assert torch.equal(found.weight_BK, straight.weight_BK)


def test_it_costs_every_step_at_most():
    assert EntropyGate().num_selected(7) == 7


@pytest.mark.parametrize("threshold", [-0.1, float("inf"), float("nan")])
def test_thresholds_are_nats(threshold):
    with pytest.raises(ValueError, match="threshold"):
        EntropyGate(threshold=threshold)
