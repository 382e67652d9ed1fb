import pytest
import torch

from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import (
    EOS,
    EOT,
    KEY,
    TablePolicy,
    ToyPolicy,
    answer,
    prompts,
    table,
)

LowConfidence = SAMPLERS.get("low_confidence")

ORDERED = ({0: 0.5}, {1: 0.8}, {2: 0.3}, {3: 0.6})
"""Slots 0 to 3 choose tokens 0 to 3; order of confidence: slot 1, 3, 0, 2."""


def greedy(policy, batch=None, **options):
    sampler = LowConfidence(temperature=0.0, **options)
    return sampler(policy, prompts([1, 2]) if batch is None else batch, KEY)


def test_the_most_confident_slots_are_committed_first():
    rollout = greedy(table(*ORDERED), answer_length=4, steps=2)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 1, 2, 3]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 0, 1, 0]]
    confidence_BN = answer(rollout.confidence_BL, rollout)
    torch.testing.assert_close(confidence_BN, torch.tensor([[0.5, 0.8, 0.3, 0.6]]))


def test_blocks_are_finished_from_left_to_right():
    rollout = greedy(table(*ORDERED), answer_length=4, block_length=2)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 0, 3, 2]]


def test_ties_go_to_the_smaller_position():
    rollout = greedy(table(*[{5: 0.5}] * 4), answer_length=4)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 1, 2, 3]]


def test_a_threshold_commits_the_best_and_every_other_confident_slot():
    # 0.8 and 0.6 at once; then nothing reaches 0.55 and the best goes alone, twice
    policy = table(*ORDERED)
    rollout = greedy(policy, answer_length=4, threshold=0.55)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 0, 2, 0]]
    assert policy.rows == rollout.forwards == 3
    assert rollout.num_steps == 4
    assert rollout.block_entropy_BT[0, 3] == 0


def test_a_confidence_equal_to_the_threshold_is_not_below_it():
    # two tokens share each slot: the candidate has probability 0.5 exactly, so all go at once
    logits_NV = torch.full((4, 10), -torch.inf)
    logits_NV[:, :2] = 0.0
    rollout = greedy(TablePolicy(logits_NV), answer_length=4, threshold=0.5)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(("threshold", "reveal"), [(0.0, [0, 0, 1, 1]), (1.0, [1, 0, 3, 2])])
def test_a_threshold_stays_inside_the_block(threshold, reveal):
    rollout = greedy(table(*ORDERED), answer_length=4, block_length=2, threshold=threshold)
    assert answer(rollout.reveal_BL, rollout).tolist() == [reveal]


@pytest.mark.parametrize("options", [{}, {"stop_at_end": True}, {"cfg_scale": 0.5}])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_threshold_rows_walk_alone_in_a_mixed_batch(temperature, options):
    sampler = LowConfidence(
        answer_length=9, block_length=4, threshold=0.45, temperature=temperature, **options
    )
    texts = [[1, 2], [3], [4, 5, 6], [0], [2, 2, 2, 1], [6, 1], [5, 5], [0, 3, 0, 6, 2]]
    together = sampler(ToyPolicy(), prompts(*texts), KEY)
    assert (together.reveal_BL.amax(1)).unique().numel() > 1
    alone = [sampler(ToyPolicy(), prompts(text, samples=[i]), KEY) for i, text in enumerate(texts)]
    for i, single in enumerate(alone):
        for name in ("tokens_BL", "reveal_BL", "logprob_BL", "entropy_BL", "confidence_BL"):
            found, expected = answer(getattr(together, name), together)[i], getattr(single, name)
            torch.testing.assert_close(found, answer(expected, single)[0])
        found, expected = together.block_entropy_BT[i], single.block_entropy_BT[0]
        torch.testing.assert_close(found, expected)
    assert together.forwards == sum(single.forwards for single in alone)


def test_s13_end_rules_keep_end_tokens_away():
    rows = ({EOS: 0.6, 1: 0.2}, {2: 0.5}, {EOT: 0.6, 3: 0.2}, {EOS: 0.7, 4: 0.2})
    plain = greedy(table(*rows), answer_length=4)
    assert answer(plain.reveal_BL, plain).tolist() == [[1, 3, 2, 0]]
    never = greedy(table(*rows), answer_length=4, end_rule="logits_inf")
    assert answer(never.tokens_BL, never).tolist() == [[1, 2, EOT, 4]]
    # probabilities without the end token: .2/.4, .5 of about .94, .6 of about .97, .2/.3
    assert answer(never.reveal_BL, never).tolist() == [[3, 2, 1, 0]]
    last = greedy(table(*rows), answer_length=4, end_rule="confidence_inf")
    assert answer(last.tokens_BL, last).tolist() == [[EOS, 2, EOT, EOS]]
    assert answer(last.reveal_BL, last).tolist() == [[1, 0, 2, 3]]
    assert answer(last.confidence_BL, last)[0, [0, 2, 3]].tolist() == [0.0, 0.0, 0.0]
    assert last.sampler.end_rule == "confidence_inf"


def test_every_knob_is_described():
    info = SAMPLERS.describe("low_confidence")
    assert all(parameter.meaning for parameter in info.parameters)
    assert info.references
