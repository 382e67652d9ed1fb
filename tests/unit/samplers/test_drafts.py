"""States and proposals that step-wise samplers store."""

import pytest
import torch

from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, KEY, MASK, ToyPolicy, answer, prompts, table

ORDERED = ({0: 0.5}, {1: 0.8}, {2: 0.3}, {3: 0.6})
"""Slots 0 to 3 choose tokens 0 to 3; order of confidence: slot 1, 3, 0, 2."""


def sample(policy, batch=None, order="low_confidence", **options):
    sampler = SAMPLERS.get(order)(**{"answer_length": 4, "record_drafts": True} | options)
    return sampler(policy, prompts([1, 2]) if batch is None else batch, KEY)


def test_the_whole_answer_is_proposed_also_outside_the_block():
    policy = ToyPolicy()
    rollout = sample(policy, block_length=2)
    assert rollout.draft_BTN.shape == rollout.hidden_BTN.shape == (1, 4, 4)
    assert rollout.draft_BTN.dtype == torch.int64 and rollout.hidden_BTN.dtype == torch.bool
    assert not (rollout.draft_BTN == MASK).any()
    assert rollout.hidden_BTN[0].sum(1).tolist() == [4, 3, 2, 1]
    assert [int(call.at.sum()) for call in policy.calls] == [4, 3, 2, 1]


def test_a_draft_is_the_state_with_every_mask_filled():
    rollout = sample(table(*ORDERED), temperature=0.0)
    assert rollout.draft_BTN[0].tolist() == [[0, 1, 2, 3]] * 4
    assert rollout.hidden_BTN[0].long().tolist() == [
        [1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 1, 0], [0, 0, 1, 0],
    ]  # fmt: skip


def test_what_is_committed_is_what_was_proposed():
    rollout = sample(ToyPolicy(), prompts([1, 2], [3]), answer_length=7, block_length=3, steps=5)
    reveal, tokens = answer(rollout.reveal_BL, rollout), answer(rollout.tokens_BL, rollout)
    drawn = rollout.draft_BTN.gather(1, reveal.unsqueeze(1)).squeeze(1)
    assert torch.equal(drawn, tokens)
    assert rollout.hidden_BTN.gather(1, reveal.unsqueeze(1)).all()


@pytest.mark.parametrize("order", ["low_confidence", "random_order", "entropy", "margin"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"block_length": 3, "steps": 5},
        {"temperature": 0.0},
        {"cfg_scale": 0.5},
        {"end_rule": "confidence_inf"},
        {"stop_at_end": True, "block_length": 2},
        {"threshold": 0.4, "block_length": 4},
    ],
)
def test_storing_them_changes_no_answer_and_costs_no_forward(order, options):
    if order == "random_order" and "threshold" in options:
        return
    batch = prompts([1, 2], [3], [4, 5, 6])
    options = {"answer_length": 8} | options
    stored = sample(ToyPolicy(), batch, order, **options)
    bare = sample(ToyPolicy(), batch, order, record_drafts=False, **options)
    for name in ("tokens_BL", "reveal_BL", "valid_BL"):
        assert torch.equal(getattr(stored, name), getattr(bare, name))
    for name in ("logprob_BL", "entropy_BL", "confidence_BL", "block_entropy_BT"):
        torch.testing.assert_close(getattr(stored, name), getattr(bare, name))
    assert stored.forwards == bare.forwards
    assert bare.draft_BTN is None and bare.hidden_BTN is None


def test_a_step_without_a_forward_keeps_the_last_proposals():
    class Uneven:
        def commits(self, num_masked, steps):
            return [1, 0, 3]

    rollout = sample(ToyPolicy(), steps=3, commits=Uneven())
    assert torch.equal(rollout.draft_BTN[0, 1], rollout.draft_BTN[0, 0])
    assert rollout.hidden_BTN[0].sum(1).tolist() == [4, 3, 3]


def test_a_row_that_has_stopped_keeps_its_answer():
    # slots 0, 1 are the first block and hold the end token: steps 2, 3 do not run
    rollout = sample(
        table({0: 0.5}, {EOS: 0.6}, {2: 0.3}, {3: 0.6}), temperature=0.0, block_length=2,
        stop_at_end=True,
    )  # fmt: skip
    assert rollout.forwards == 2
    assert rollout.draft_BTN[0, :, :2].tolist() == [[0, EOS]] * 4
    assert rollout.hidden_BTN[0, 2:].tolist() == [[False, False, True, True]] * 2
    end = torch.tensor([[4]])
    assert rollout.hidden_before(end)[0, 0, -4:].tolist() == [False, False, True, True]


def test_stored_and_described_states_agree():
    rollout = sample(ToyPolicy(), prompts([1, 2], [3]), answer_length=8, block_length=4, steps=5)
    bare = sample(
        ToyPolicy(), prompts([1, 2], [3]), answer_length=8, block_length=4, steps=5,
        record_drafts=False,
    )  # fmt: skip
    step_BK = torch.arange(6).expand(2, 6)
    assert torch.equal(rollout.hidden_before(step_BK), bare.hidden_before(step_BK))
    state = rollout.draft_before(step_BK).masked_fill(rollout.hidden_before(step_BK), MASK)
    told = bare.tokens_BL.unsqueeze(1).masked_fill(bare.hidden_before(step_BK), MASK)
    assert torch.equal(state, told)


def test_samplers_say_whether_they_store_them():
    LowConfidence = SAMPLERS.get("low_confidence")
    assert not LowConfidence().records_drafts
    assert LowConfidence(record_drafts=True).records_drafts
