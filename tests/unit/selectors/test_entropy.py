import pytest
import torch

from dllmzoo.records import take
from dllmzoo.zoo import SELECTORS
from tests.unit.selectors.trajectories import KEY, rollout, used

Entropy = SELECTORS.get("entropy")

# Step    0: slots 0, 1    1: slot 2    2: nothing    3: slots 3, 4, 5
# mean    (1.0+2.0)/2=1.5  1.8          -             (0.9+0.9+0.9)/3=0.9
# sum     3.0              1.8          -             2.7
PLAYED = rollout([[0, 0, 1, 3, 3, 3]], [[1.0, 2.0, 1.8, 0.9, 0.9, 0.9]], 4)


def test_the_most_uncertain_steps_come_first():
    steps = Entropy(steps=2)(PLAYED, KEY)
    assert steps.start_BK.tolist() == [[1, 0]]
    assert steps.stop_BK.tolist() == [[2, 1]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0]]


def test_the_sum_counts_how_many_tokens_a_step_committed():
    assert used(Entropy(steps=3, over="committed_sum")(PLAYED, KEY)) == [[0, 3, 1]]


def test_block_mean_ranks_states_and_still_leaves_out_empty_steps():
    played = rollout([[0, 1, 3]], [[9.0, 5.0, 1.0]], 4, block_entropy=[[0.1, 0.3, 7.0, 0.2]])
    assert used(Entropy(steps=4, over="block_mean")(played, KEY)) == [[1, 3, 0]]


def test_ties_go_to_the_smaller_step():
    # 0.1 + 0.2 + 0.3 in three orders: equal means, whatever the order of addition
    played = rollout(
        [[2, 2, 2, 0, 0, 0, 1, 1, 1]], [[0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.2, 0.3, 0.1]], 3
    )
    assert used(Entropy(steps=3)(played, KEY)) == [[0, 1, 2]]
    assert used(Entropy(steps=3, over="committed_sum")(played, KEY)) == [[0, 1, 2]]


def test_fewer_steps_than_asked_for_leave_weight_zero():
    steps = Entropy(steps=4)(PLAYED, KEY)
    assert steps.start_BK.tolist() == [[1, 0, 3, 2]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0, 1.0, 0.0]]


def test_more_columns_than_steps_are_empty_spans_inside_the_rollout():
    steps = Entropy(steps=6)(PLAYED, KEY)
    assert steps.start_BK.tolist() == [[1, 0, 3, 2, 4, 4]]
    assert steps.stop_BK.tolist() == [[2, 1, 4, 3, 4, 4]]
    assert steps.weight_BK.tolist() == [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]


def test_a_one_hot_step_is_chosen_before_an_empty_one():
    played = rollout([[0, 2]], [[0.0, 0.0]], 3)
    assert used(Entropy(steps=3)(played, KEY)) == [[0, 2]]


def test_prompt_entropies_are_never_read():
    # slot -1 carries entropy 100 in `rollout`: a step must not collect it
    assert used(Entropy(steps=1)(rollout([[1, 0]], [[1.0, 2.0]], 2), KEY)) == [[0]]


@pytest.mark.parametrize(
    ("valid", "expected"),
    [
        ([True, True, False, False], [[0]]),  # text, end | behind the end, behind the end
        ([True, True, True, False], [[1, 0]]),
        ([True, True, True, True], [[3, 2, 1, 0]]),  # no end token before the last slot
        ([True, False, False, False], [[3, 2, 1, 0]]),  # no text at all: every step stays
    ],
)
def test_steps_behind_the_text_can_be_left_out(valid, expected):
    played = rollout([[0, 1, 2, 3]], [[1.0, 2.0, 3.0, 4.0]], 4, valid=[valid])
    assert used(Entropy(steps=4, until_last_non_end=True)(played, KEY)) == expected
    assert used(Entropy(steps=4)(played, KEY)) == [[3, 2, 1, 0]]


def test_an_end_step_before_the_last_text_step_stays():
    # the end token (slot 1) is committed at step 0, the text before it at step 2
    played = rollout([[2, 0, 1]], [[1.0, 2.0, 3.0]], 3, valid=[[True, True, False]])
    assert used(Entropy(steps=3, until_last_non_end=True)(played, KEY)) == [[1, 0, 2]]


def test_rows_do_not_meet():
    both = rollout([[0, 1, 1], [1, 0, 2]], [[1.0, 2.0, 2.0], [3.0, 1.0, 2.0]], 3)
    steps = Entropy(steps=2)(both, KEY)
    assert used(steps) == [[1, 0], [1, 2]]
    swapped = Entropy(steps=2)(take(both, torch.tensor([1, 0])), KEY)
    assert torch.equal(swapped.start_BK, steps.start_BK.flip(0))


def test_at_least_one_step_is_kept():
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Entropy(steps=0)


def test_costs_are_known_before_sampling():
    assert [Entropy(steps=8).num_selected(T) for T in (4, 8, 16)] == [4, 8, 8]
