import torch

from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, KEY, answer, prompts, table

Entropy = SAMPLERS.get("entropy")


def greedy(policy, **options):
    return Entropy(**{"answer_length": 3, "temperature": 0.0} | options)(policy, prompts([1]), KEY)


def test_the_sharpest_distribution_goes_first_not_the_most_confident_token():
    # the rest of each row is shared by the other 8 or 9 tokens:
    # slot 0: .5 .5 and nothing else: entropy ln 2 = .693
    # slot 1: .6 and .4/9 nine times: .6 ln(1/.6) + .4 ln(9/.4) = .306 + 1.245 = 1.552
    # slot 2: .9 and .1/9 nine times: .095 + .450 = .545
    policy = table({0: 0.5, 1: 0.5}, {2: 0.6}, {3: 0.9})
    rollout = greedy(policy)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 2, 0]]
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 2, 3]]
    expected = torch.tensor([0.693147, 1.551740, 0.544800])
    torch.testing.assert_close(answer(rollout.entropy_BL, rollout)[0], expected, atol=2e-4, rtol=0)
    # confidence would have taken slot 1 before slot 0
    other = SAMPLERS.get("low_confidence")(answer_length=3, temperature=0.0)(
        policy, prompts([1]), KEY
    )
    assert answer(other.reveal_BL, other).tolist() == [[2, 1, 0]]


def test_blocks_and_thresholds_are_those_of_the_base():
    policy = table({0: 0.5}, {1: 0.6}, {2: 0.9}, {3: 0.8})
    rollout = greedy(policy, answer_length=4, block_length=2)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 0, 2, 3]]
    # a threshold asks for confidence: slots 2 and 3 at once, then one a step
    rollout = greedy(policy, answer_length=4, threshold=0.7)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[2, 1, 0, 0]]


def test_equal_entropies_go_to_the_smaller_position():
    rollout = greedy(table({0: 0.5}, {1: 0.5}, {2: 0.5}))
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 1, 2]]


def test_a_held_back_end_token_goes_last_however_sharp():
    rollout = greedy(table({EOS: 0.98}, {1: 0.4}, {2: 0.3}), end_rule="confidence_inf")
    assert answer(rollout.tokens_BL, rollout).tolist() == [[EOS, 1, 2]]
    assert answer(rollout.reveal_BL, rollout)[0, 0] == 2
