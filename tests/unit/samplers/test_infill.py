from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, EOT, KEY, MASK, ToyPolicy, answer, prompts, table

Infill = SAMPLERS.get("infill")
M = MASK


def given(answers, *rows, samples=None):
    return replace(prompts(*rows, samples=samples), answer_BN=torch.tensor(answers))


def greedy(policy, batch, **options):
    return Infill(**{"answer_length": 4, "temperature": 0.0} | options)(policy, batch, KEY)


def last(value_BL):
    return value_BL[:, -4:].tolist()


ORDERED = ({0: 0.5}, {1: 0.8}, {2: 0.3}, {3: 0.6})
"""Slots 0 to 3 choose tokens 0 to 3; order of confidence: slot 1, 3, 0, 2."""


def test_only_blanks_are_filled_and_the_rest_stays():
    rollout = greedy(table(*ORDERED), given([[M, 5, M, 6], [4, M, M, M]], [1], [2]))
    assert last(rollout.tokens_BL) == [[0, 5, 2, 6], [4, 1, 2, 3]]
    assert last(rollout.answer_BL) == [[True, False, True, False], [False, True, True, True]]
    assert torch.equal(rollout.valid_BL, rollout.answer_BL)
    assert last(rollout.reveal_BL) == [[0, -1, 1, -1], [-1, 0, 2, 1]]
    assert (rollout.logprob_BL[~rollout.answer_BL] == 0).all()
    assert rollout.length_B.tolist() == [2, 3]


def test_blanks_are_shared_over_the_steps_row_by_row():
    # 2 steps: 3 blanks are 2 + 1, 1 blank is 1 + 0, none is nothing; forwards 2 + 1 + 0
    policy = table(*ORDERED)
    texts = [[M, 5, M, M], [4, 4, M, 4], [4, 4, 4, 4]]
    rollout = greedy(policy, given(texts, [1], [2], [3]), steps=2)
    assert last(rollout.reveal_BL) == [[0, -1, 1, 0], [-1, -1, 0, -1], [-1] * 4]
    assert rollout.forwards == policy.rows == 3
    assert rollout.num_steps == 2 and (rollout.block_entropy_BT > 0).sum(1).tolist() == [2, 1, 0]


def test_blocks_have_their_own_steps():
    # blocks of 2 with 2 steps each: one blank of the first at step 0, those of the second at 2, 3
    rollout = greedy(table(*ORDERED), given([[M, 5, M, M]], [1]), block_length=2, steps=4)
    assert last(rollout.reveal_BL) == [[0, -1, 3, 2]]
    rollout = greedy(table(*ORDERED), given([[M, 5, M, M]], [1]), block_length=2)
    assert last(rollout.reveal_BL) == [[0, -1, 3, 2]]


def test_a_threshold_fills_all_that_is_confident():
    texts = [[M, M, M, 7], [4, 4, 4, 4], [4, 4, 4, M]]
    rollout = greedy(table(*ORDERED), given(texts, [1], [2], [3]), threshold=0.45)
    assert last(rollout.reveal_BL) == [[0, 0, 1, -1], [-1] * 4, [-1, -1, -1, 0]]
    assert rollout.forwards == 3


def test_no_stop_token_is_drawn_in_a_blank_but_given_ones_stay():
    # .9 on the end token: the next is token 1; its log-prob is under the law without stop tokens:
    # (.07 / .03), the rest .03 shared by 8 tokens, two of which (stop, mask) are out
    policy = table({EOS: 0.9, 1: 0.07}, {EOT: 0.9, 2: 0.07}, {3: 0.9})
    rollout = Infill(answer_length=3, temperature=0.0)(policy, given([[M, M, EOS]], [1]), KEY)
    assert rollout.tokens_BL[0, -3:].tolist() == [1, 2, EOS]
    # slot 0: 8 others at .03 / 8; EOT and MASK go: .07 + 6 * .00375 = .0925
    expected = torch.tensor([0.07 / 0.0925]).log()
    torch.testing.assert_close(rollout.logprob_BL[0, -3:-2], expected, atol=1e-5, rtol=0)
    assert rollout.valid_BL[0].tolist() == [False, True, True, False]


def test_guidance_masks_the_prompt_and_not_the_text():
    policy = ToyPolicy()
    greedy(policy, given([[5, M, 5, M]], [1, 2]), cfg_scale=1.0, steps=1)
    assert policy.calls[0].tokens.tolist() == [[1, 2, 5, M, 5, M], [M, M, 5, M, 5, M]]


def test_a_text_without_a_prompt_is_filled_too():
    rollout = greedy(table(*ORDERED), given([[M, 5, 5, 5]], []))
    assert rollout.tokens_BL.tolist() == [[0, 5, 5, 5]]


def test_drafts_hold_the_given_text():
    batch = given([[M, 5, M, M]], [1])
    rollout = greedy(table(*ORDERED), batch, steps=3, record_drafts=True)
    assert rollout.draft_BTN.tolist() == [[[0, 5, 2, 3]] * 3]
    assert rollout.hidden_BTN.tolist() == [
        [[True, False, True, True], [True, False, True, False], [False, False, True, False]]
    ]


@pytest.mark.parametrize("options", [{"end_rule": "logits_inf"}, {"stop_at_end": True}])
def test_rules_about_end_tokens_are_refused(options):
    with pytest.raises(ValidationError, match="infill keeps the length of the text"):
        Infill(**options)


def test_a_text_is_needed():
    with pytest.raises(UsageError, match=r"`given_blanks`"):
        greedy(table(*ORDERED), prompts([1]))
    assert Infill.given == "blanks" and Infill.records_steps


def test_a_policy_without_end_tokens_can_fill():
    policy = table(*ORDERED)
    policy.stop_ids = ()
    assert answer(
        greedy(policy, given([[M, 5, M, M]], [1])).tokens_BL,
        greedy(table(*ORDERED), given([[M, 5, M, M]], [1])),
    ).tolist() == [[0, 2, 3]]
