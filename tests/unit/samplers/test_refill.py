"""Finished rows make room for waiting ones."""

import pytest
import torch

from dllmzoo.samplers.low_confidence import LowConfidence
from dllmzoo.samplers.random_order import RandomOrder
from dllmzoo.samplers.running_confidence import RunningConfidence
from dllmzoo.samplers.tree import Tree
from dllmzoo.training.sampling import sample
from tests.unit.samplers.toy import KEY, ToyPolicy, prompts

TEXTS = [[1, 2, 3], [4], [5, 6], [0, 1], [2, 2, 2], [3], [6, 5, 4, 3], [1], [0], [2, 6]]
STOPPING = [
    {"threshold": 0.3},
    {"stop_at_end": True, "steps": 8},
    {"stop_at_end": True, "steps": 5, "temperature": 0.0},
    {"stop_at_end": True, "threshold": 0.5, "temperature": 0.0},
    {"stop_at_end": True, "end_damping": {"lo": 0.2}},
]


@pytest.mark.parametrize("options", STOPPING, ids=str)
def test_answers_are_those_of_any_other_company(options):
    sampler = LowConfidence(**{"answer_length": 8, "block_length": 4} | options)
    assert sampler.refills
    plain, packed = ToyPolicy(), ToyPolicy()
    expected = sampler(plain, prompts(*TEXTS), KEY)
    found = sampler(packed, prompts(*TEXTS), KEY, width=3)
    for name in ("tokens_BL", "reveal_BL", "valid_BL"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    for name in ("logprob_BL", "entropy_BL", "confidence_BL", "block_entropy_BT"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))
    assert found.forwards == expected.forwards
    sizes = [len(call.tokens) for call in packed.calls]
    assert max(sizes) == 3
    full = sizes[: len(sizes) - sampler.num_steps]  # until nobody waits no place stays empty
    assert full == [3] * len(full)


def test_fewer_forwards_than_batches_need_and_the_same_rows():
    sampler = LowConfidence(answer_length=8, block_length=4, threshold=0.2)
    packed, batches = ToyPolicy(), ToyPolicy()
    refilled = sampler(packed, prompts(*TEXTS), KEY, width=2)
    rows = [
        sampler(batches, prompts(*TEXTS[i : i + 2], samples=[i, i + 1]), KEY)
        for i in range(0, 10, 2)
    ]
    assert refilled.forwards == sum(each.forwards for each in rows)
    # steps of the rows: 7 7 | 3 3 | 5 4 | 6 5 | 4 4, so batches take 7 + 3 + 5 + 6 + 4
    assert len(batches.calls) == 25
    assert len(packed.calls) == 24 == refilled.forwards / 2  # both places are always taken


def test_steps_that_commit_nothing_are_passed_over():
    # four tokens in six steps of one block: some steps have nothing to do
    sampler = LowConfidence(answer_length=4, steps=6, stop_at_end=True, temperature=0.0)
    assert 0 in [count for _, count in sampler._plan()]
    policy = ToyPolicy()
    found = sampler(policy, prompts(*TEXTS), KEY, width=4)
    expected = sampler(ToyPolicy(), prompts(*TEXTS), KEY)
    assert torch.equal(found.tokens_BL, expected.tokens_BL)
    assert torch.equal(found.reveal_BL, expected.reveal_BL)


def test_who_cannot_stop_early_or_steps_together_does_not_refill():
    assert not LowConfidence(answer_length=8).refills
    assert not LowConfidence(answer_length=8, threshold=0.5, record_drafts=True).refills
    assert not RunningConfidence(answer_length=8, stop_at_end=True).refills
    assert not Tree(answer_length=8, stop_at_end=True, branch=(2, 2)).refills
    assert RandomOrder(answer_length=8, stop_at_end=True).refills


def test_a_round_hands_all_rows_to_a_sampler_that_refills():
    sampler = LowConfidence(answer_length=8, block_length=4, threshold=0.3)
    policy = ToyPolicy()
    given = prompts(*TEXTS)
    shown = []
    found = sample(sampler, policy, given, KEY, 3, shown.append)
    expected = sampler(ToyPolicy(), given, KEY)
    assert torch.equal(found.tokens_BL, expected.tokens_BL)
    assert max(len(call.tokens) for call in policy.calls) == 3
    assert [each.tokens_BL.shape for each in shown] == [found.tokens_BL.shape]
