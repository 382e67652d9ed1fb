import itertools
from collections import Counter
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from dllmzoo.records import Key
from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import KEY, ToyPolicy, answer, prompts, table

RandomOrder = SAMPLERS.get("random_order")

ROWS = ({0: 0.9}, {1: 0.8}, {2: 0.7}, {3: 0.6})


@dataclass
class Given:
    priority_TN: Tensor

    def priority(self, at):
        return self.priority_TN[at.step, at.slot_S]


def test_the_slots_of_the_highest_numbers_go_first():
    # step 0: slot 2 of the first block (.9); step 1: slot 0 (.5); step 2: slot 1; then slot 3
    numbers = torch.tensor(
        [[0.1, 0.2, 0.9, 1.0], [0.5, 0.4, 0, 1.0], [0, 0.1, 0, 1.0], [0, 0, 0, 0]]
    )
    sampler = RandomOrder(answer_length=4, block_length=3, temperature=0.0)
    rollout = sampler(table(*ROWS), prompts([1]), KEY, Given(numbers))
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 2, 0, 3]]
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 1, 2, 3]]


def test_confidences_are_still_those_of_the_model():
    rollout = RandomOrder(answer_length=4, temperature=0.0)(table(*ROWS), prompts([1]), KEY)
    expected = torch.tensor([[0.9, 0.8, 0.7, 0.6]])
    torch.testing.assert_close(answer(rollout.confidence_BL, rollout), expected)


def test_every_order_of_a_block_is_equally_likely():
    # 6 orders of 3 slots, 1200 samples: 200 each, standard deviation sqrt(1200*5/36) = 12.9
    sampler = RandomOrder(answer_length=6, block_length=3, temperature=0.0)
    rollout = sampler(table(*[{0: 0.5}] * 6), prompts(*[[1]] * 1200), KEY)
    reveal_BN = answer(rollout.reveal_BL, rollout)
    for block_BN in (reveal_BN[:, :3], reveal_BN[:, 3:] - 3):
        counts = Counter(map(tuple, block_BN.tolist()))
        assert set(counts) == set(itertools.permutations(range(3)))
        assert max(abs(count - 200) for count in counts.values()) < 4 * 12.9


def test_the_order_does_not_look_at_the_model():
    sampler = RandomOrder(answer_length=8, block_length=4, steps=5)
    batch = prompts([1, 2], [3], [4, 4, 4])
    one, other = (sampler(ToyPolicy(seed), batch, KEY) for seed in (0, 1))
    assert torch.equal(one.reveal_BL, other.reveal_BL)
    assert not torch.equal(one.tokens_BL, other.tokens_BL)


def test_a_row_depends_on_the_key_and_its_sample_alone():
    sampler = RandomOrder(answer_length=6, block_length=4)
    whole = sampler(ToyPolicy(), prompts([1], [2], [3], samples=[5, 6, 7]), KEY)
    part = sampler(ToyPolicy(), prompts([3], [1], samples=[7, 5]), KEY)
    assert torch.equal(part.tokens_BL, whole.tokens_BL[[2, 0]])
    assert torch.equal(part.reveal_BL, whole.reveal_BL[[2, 0]])
    again = sampler(ToyPolicy(), prompts([1], samples=[5]), Key(seed=4, round=0, purpose="sample"))
    assert not torch.equal(again.reveal_BL[0], whole.reveal_BL[0])


def test_a_threshold_is_refused():
    with pytest.raises(ValueError, match="leave threshold out, or use low_confidence"):
        RandomOrder(threshold=0.9)


def test_the_base_refuses_as_ever():
    with pytest.raises(ValueError, match="use steps: 3 or block_length: 10"):
        RandomOrder(answer_length=20, block_length=8, steps=2)
