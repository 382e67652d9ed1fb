from types import SimpleNamespace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, EOT, KEY, MASK, ToyPolicy, answer, prompts

RunningConfidence = SAMPLERS.get("running_confidence")


class Script:
    """At call i slot n chooses token `[i][n]` with probability `[i][n]`, whatever the input."""

    mask_id, stop_ids, block_size = MASK, (EOS, EOT), None

    def __init__(self, *calls):
        self.calls = calls
        self.inputs = []

    def __call__(self, input_ids, attention_mask=None, *, logits_at):
        tokens, probs = self.calls[len(self.inputs)]
        self.inputs.append(input_ids)
        N = len(tokens)
        prob_NV = torch.zeros(N, 10)
        for n, (token, prob) in enumerate(zip(tokens, probs, strict=True)):
            prob_NV[n] = (1 - prob) / 9
            prob_NV[n, token] = prob
        slot_S = logits_at.nonzero()[:, 1] - (input_ids.shape[1] - N)
        return SimpleNamespace(logits=prob_NV[slot_S].log())


def greedy(policy, **options):
    return RunningConfidence(temperature=0.0, **options)(policy, prompts([1]), KEY)


def inputs(policy):
    return [seen[0, 1:].tolist() for seen in policy.inputs]


M = MASK


def test_every_step_fills_all_and_masks_the_weakest_again():
    # 4 tokens in 4 steps of 1: after steps 0, 1, 2, 3 the schedule wants 3, 2, 1, 0 masked
    policy = Script(
        ((0, 1, 2, 3), (0.5, 0.9, 0.6, 0.7)),  # keep slot 1 (.9)
        ((4, 0, 5, 6), (0.95, 0.3, 0.4, 0.8)),  # filled: 0 .95, 2 .4, 3 .8; keep 0, 1
        ((0, 0, 3, 2), (0.3, 0.3, 0.92, 0.93)),  # 2 .92, 3 .93; weakest of all is slot 1 (.9)
        ((0, 6, 0, 0), (0.3, 0.2, 0.3, 0.3)),  # the last step fills it for good
    )
    rollout = greedy(policy, answer_length=4, steps=4)
    assert inputs(policy) == [[M, M, M, M], [M, 1, M, M], [4, 1, M, M], [4, M, 3, 2]]
    assert answer(rollout.tokens_BL, rollout).tolist() == [[4, 6, 3, 2]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 3, 2, 2]]
    confidence = answer(rollout.confidence_BL, rollout)[0].tolist()
    assert confidence == pytest.approx([0.95, 0.2, 0.92, 0.93])
    assert answer(rollout.logprob_BL, rollout)[0, 0].exp() > 0.95  # without the mask token
    assert rollout.draft_BTN.tolist() == [[[0, 1, 2, 3], [4, 1, 5, 6], [4, 1, 3, 2], [4, 6, 3, 2]]]
    assert rollout.hidden_BTN[0].sum(1).tolist() == [4, 3, 2, 1]
    assert rollout.forwards == 4


def test_an_earlier_block_may_be_masked_again():
    # blocks of 2, one step a token; step 2 works on block 1 and finds slot 0 (.4) the weakest
    policy = Script(
        ((0, 1, 2, 3), (0.4, 0.3, 0.9, 0.9)),  # candidates of block 1 are no candidates yet
        ((9, 1, 2, 3), (0.4, 0.6, 0.9, 0.9)),
        ((0, 0, 5, 6), (0.4, 0.4, 0.7, 0.8)),
        ((4, 0, 0, 0), (0.5, 0.4, 0.4, 0.4)),
    )
    rollout = greedy(policy, answer_length=4, block_length=2)
    assert inputs(policy) == [[M, M, M, M], [0, M, M, M], [0, 1, M, M], [M, 1, 5, 6]]
    assert answer(rollout.tokens_BL, rollout).tolist() == [[4, 1, 5, 6]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[3, 1, 2, 2]]
    # step 0 proposes for block 1 too, without committing there
    assert rollout.draft_BTN[0, 0].tolist() == [0, 1, 2, 3]


def test_equal_confidences_keep_the_smaller_position():
    policy = Script(((1, 1, 1), (0.5, 0.5, 0.5)), ((3, 3, 3), (0.5, 0.5, 0.5)))
    greedy(policy, answer_length=3, steps=2)
    assert inputs(policy) == [[M, M, M], [1, 1, M]]


def test_records_of_a_slot_taken_back_are_gone_until_it_is_filled():
    # after step 0 slots 1, 2 are masked: nothing of their first filling is left in the end
    policy = Script(
        ((0, 1, 2), (0.9, 0.8, 0.7)), ((0, 4, 5), (0.2, 0.3, 0.25)), ((0, 0, 6), (0.2, 0.2, 0.35))
    )
    rollout = greedy(policy, answer_length=3, steps=3)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 4, 6]]
    confidence = answer(rollout.confidence_BL, rollout)[0].tolist()
    assert confidence == pytest.approx([0.9, 0.3, 0.35])


def test_a_row_can_stop_after_the_block_with_its_end_token():
    policy = Script(((0, EOS, 2, 3), (0.9,) * 4), ((0, EOS, 2, 3), (0.9,) * 4))
    rollout = greedy(policy, answer_length=4, block_length=2, stop_at_end=True)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, EOS, EOS, EOS]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 1, -1, -1]]
    assert rollout.forwards == 2
    assert rollout.hidden_BTN[0].sum(1).tolist() == [4, 3, 2, 2]


@pytest.mark.parametrize("commits", ["linear", "cosine", "ascending", "sigmoid"])
@pytest.mark.parametrize("sizes", [(12, 12, 5), (12, 5, 7), (8, 4, 12)])
def test_masks_are_on_schedule_whatever_the_model(commits, sizes):
    N, block, steps = sizes
    sampler = RunningConfidence(answer_length=N, block_length=block, steps=steps, commits=commits)
    rollout = sampler(ToyPolicy(), prompts([1, 2], [3]), KEY)
    left = N - torch.tensor([0] + [count for _, count in sampler._plan()]).cumsum(0)
    assert rollout.hidden_BTN.sum(2).tolist() == [left[:-1].tolist()] * 2
    assert (answer(rollout.reveal_BL, rollout) >= 0).all()


def test_a_threshold_and_bare_states_are_refused():
    with pytest.raises(ValidationError, match="running_confidence masks again by schedule"):
        RunningConfidence(threshold=0.9)
    with pytest.raises(ValidationError, match="record_drafts"):
        RunningConfidence(record_drafts=False)
    assert SAMPLERS.get("rcr") is RunningConfidence
    assert RunningConfidence().records_drafts and RunningConfidence.remasks
