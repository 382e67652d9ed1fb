import pytest
import torch
from pydantic import ValidationError

import dllmzoo
from dllmzoo.errors import RecipeError
from dllmzoo.samplers._end_damping import EndDamping
from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, EOT, KEY, ToyPolicy, answer, prompts, table

LowConfidence = SAMPLERS.get("low_confidence")


def test_the_linear_ramp_runs_from_lo_to_hi():
    # .4 + .6 s / 3
    found = [EndDamping(lo=0.4, hi=1.0).factor(s, 4) for s in range(4)]
    assert found == pytest.approx([0.4, 0.6, 0.8, 1.0])
    assert EndDamping(lo=0.2, hi=0.7).factor(0, 1) == pytest.approx(0.7)


def test_the_doubling_ramp_has_the_published_values():
    # .01 + .99 (2^(s+1) - 1) / 2^8
    found = [EndDamping(lo=0.01, hi=1.0, ramp="pow2").factor(s, 8) for s in range(8)]
    published = [0.014, 0.022, 0.037, 0.068, 0.13, 0.25, 0.50, 1.0]
    assert found == pytest.approx(published, abs=6e-3)
    assert found[0] == pytest.approx(0.01 + 0.99 / 256)
    assert EndDamping(ramp="pow2").factor(2000, 3000) == pytest.approx(0.4)


POLICY = ({EOS: 0.9}, {1: 0.5}, {EOT: 0.7}, {3: 0.6})
"""Slots 0 and 2 choose stop tokens; confidence orders 0, 2, 3, 1."""


def test_stop_tokens_wait_for_their_damped_turn():
    # step 0: .9, .7 times .1: slots 3 (.6), 1 first; step 1 of 4: factor .1 + .9/3 = .4: .36, .28
    # against .5: slot 1; step 2: slot 0 (.7 * .9 = .63) before slot 2 (.49)
    damping = {"lo": 0.1, "hi": 1.0}
    sampler = LowConfidence(answer_length=4, temperature=0.0, end_damping=damping)
    rollout = sampler(table(*POLICY), prompts([1]), KEY)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[2, 1, 3, 0]]
    assert answer(rollout.tokens_BL, rollout).tolist() == [[EOS, 1, EOT, 3]]


def test_what_is_recorded_is_not_damped():
    plain = LowConfidence(answer_length=4, temperature=0.0)(table(*POLICY), prompts([1]), KEY)
    damped = LowConfidence(answer_length=4, temperature=0.0, end_damping=EndDamping(lo=0.1))(
        table(*POLICY), prompts([1]), KEY
    )
    assert not torch.equal(plain.reveal_BL, damped.reveal_BL)
    for name in ("tokens_BL", "confidence_BL", "logprob_BL", "entropy_BL"):
        torch.testing.assert_close(getattr(plain, name), getattr(damped, name))


def test_a_threshold_compares_the_confidence_itself():
    # slot 0 is the surest by confidence and over the threshold: committed at once
    sampler = LowConfidence(
        answer_length=4, temperature=0.0, threshold=0.8, end_damping=EndDamping(lo=0.0)
    )
    rollout = sampler(table(*POLICY), prompts([1]), KEY)
    assert answer(rollout.reveal_BL, rollout)[0, 0] == 0


def test_factor_one_and_no_damping_are_the_same():
    batch = prompts([1, 2], [3], [4, 5, 6])
    options = dict(answer_length=8, block_length=4, steps=5)
    plain = LowConfidence(**options)(ToyPolicy(), batch, KEY)
    one = LowConfidence(**options, end_damping={"lo": 1.0})(ToyPolicy(), batch, KEY)
    assert torch.equal(plain.tokens_BL, one.tokens_BL)
    assert torch.equal(plain.reveal_BL, one.reveal_BL)


def test_recipes_write_it_as_a_mapping():
    made = dllmzoo.build(
        "sampler", {"name": "low_confidence", "end_damping": {"lo": 0.01, "ramp": "pow2"}}
    )
    assert made.end_damping == EndDamping(lo=0.01, hi=1.0, ramp="pow2")
    with pytest.raises(RecipeError, match=r"end_damping.lo: must be <= 1, got 2"):
        dllmzoo.build("sampler", {"name": "low_confidence", "end_damping": {"lo": 2}})
    with pytest.raises(ValidationError):
        LowConfidence(end_damping={"ramp": "cubic"})
