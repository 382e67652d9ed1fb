from dataclasses import replace

import pytest
import torch

from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, KEY, MASK, ToyPolicy, answer, prompts, table

MaskgitPlus = SAMPLERS.get("maskgit_plus")


def counts(rollout, steps):
    """Tokens committed at each step, by row."""
    return [row.bincount(minlength=steps).tolist() for row in answer(rollout.reveal_BL, rollout)]


def test_the_likeliest_token_goes_first():
    policy = table({0: 0.5}, {1: 0.9}, {2: 0.7})
    rollout = MaskgitPlus(answer_length=3, temperature=0.0)(policy, prompts([1]), KEY)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[2, 0, 1]]
    confidence = torch.tensor([[0.5, 0.9, 0.7]])
    torch.testing.assert_close(answer(rollout.confidence_BL, rollout), confidence)


def test_the_order_looks_at_the_drawn_token():
    class Second:
        def token(self, logits_SV, temperature, at):
            return logits_SV.topk(2, dim=-1).indices[:, 1]

    policy = table({0: 0.9, 1: 0.02}, {2: 0.5, 3: 0.4}, {4: 0.4, 5: 0.3})
    rollout = MaskgitPlus(answer_length=3)(policy, prompts([1]), KEY, Second())
    assert answer(rollout.tokens_BL, rollout).tolist() == [[1, 3, 5]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[2, 0, 1]]


@pytest.mark.parametrize("name", ["maskgit_plus", "margin", "topk_margin", "entropy"])
def test_dreams_commit_rule_is_the_default_here_and_an_option_of_its_other_orders(name):
    # see test_share_of_rest: 12 tokens in 6 steps and in 12
    option = {} if name == "maskgit_plus" else {"commits": "dream"}
    for steps, expected in ((6, [1, 2, 2, 2, 2, 3]), (12, [0, *[1] * 10, 2])):
        sampler = SAMPLERS.get(name)(answer_length=12, steps=steps, **option)
        rollout = sampler(ToyPolicy(), prompts([1, 2], [3]), KEY)
        assert counts(rollout, steps) == [expected, expected]
        running = sum(count > 0 for count in expected)
        assert sampler.num_forwards == running and rollout.forwards == 2 * running
    late = SAMPLERS.get(name)(answer_length=12, steps=2, commits={"name": "dream", "eps": 0.5})
    assert counts(late(ToyPolicy(), prompts([1]), KEY), 2) == [[3, 9]]


def test_every_row_commits_a_share_of_its_own_masks():
    # 12 blanks and 6: [1 2 2 2 2 3] and [0 1 1 1 1 2]; an average of 9 would give both the same
    answer_BN = torch.full((2, 12), MASK)
    answer_BN[1, :6] = 4
    given = replace(prompts([1], [2]), answer_BN=answer_BN)
    sampler = SAMPLERS.get("infill")(answer_length=12, steps=6, commits="share_of_rest")
    rollout = sampler(ToyPolicy(), given, KEY)
    reveal_BN = rollout.reveal_BL[:, -12:]
    found = [row[row >= 0].bincount(minlength=6).tolist() for row in reveal_BN]
    assert found == [[1, 2, 2, 2, 2, 3], [0, 1, 1, 1, 1, 2]]


def test_blocks_and_thresholds_are_those_of_the_base():
    policy = table({0: 0.5}, {1: 0.6}, {2: 0.9}, {3: 0.8})
    blocks = MaskgitPlus(answer_length=4, block_length=2, temperature=0.0)
    rollout = blocks(policy, prompts([1]), KEY)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 0, 2, 3]]
    fast = MaskgitPlus(answer_length=4, threshold=0.7, temperature=0.0)
    rollout = fast(policy, prompts([1]), KEY)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[2, 1, 0, 0]]


def test_a_held_back_end_token_goes_last():
    policy = table({EOS: 0.98}, {1: 0.4}, {2: 0.3})
    sampler = MaskgitPlus(answer_length=3, temperature=0.0, end_rule="confidence_inf")
    rollout = sampler(policy, prompts([1]), KEY)
    assert answer(rollout.reveal_BL, rollout)[0].tolist() == [2, 0, 1]
