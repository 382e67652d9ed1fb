"""Behaviours learned from public bug reports, B: schedules and decoding."""

import inspect
import itertools
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.checks import load_checked
from dllmzoo.errors import RecipeError
from dllmzoo.records import Key
from dllmzoo.zoo import MODELS, SAMPLERS
from tests.runs import recipe
from tests.unit.samplers.toy import EOS, EOT, KEY, MASK, prompts, table

LowConfidence = SAMPLERS.get("low_confidence")


@pytest.mark.parametrize(("length", "block", "steps"), [(20, 8, 7), (20, 8, 50), (20, 64, 6)])
def test_s11_numbers_that_do_not_divide_fill_every_slot_once(length, block, steps):
    policy = table(*[{slot % 5: 0.5} for slot in range(length)])
    made = {"answer_length": length, "block_length": block, "steps": steps, "temperature": 0.0}
    try:
        sampler = LowConfidence(**made)
    except ValidationError as error:  # refused: the numbers that fit are named
        assert block > length and "20" in str(error)
        return
    rollout = sampler(policy, prompts([1, 2], [3, 4]), KEY)
    reveal_BN = rollout.reveal_BL[:, -length:]
    assert (reveal_BN >= 0).all() and (rollout.tokens_BL != MASK).all()
    assert reveal_BN.max() < sampler.num_steps <= max(steps, length)
    ends = [reveal_BN[:, i : i + block] for i in range(0, length, block)]
    for one, following in itertools.pairwise(ends):
        assert (one.max(1).values < following.min(1).values).all()
    assert rollout.forwards <= 2 * sampler.num_steps


def test_s12_the_two_kinds_of_blocks_have_two_names(tmp_path):
    """`sampler.block_length` is of decoding, `block_size` of a network's attention."""
    for name in SAMPLERS.names():
        assert "block_size" not in {field.name for field in fields(SAMPLERS.get(name))}, name
    for name in MODELS.names():
        given = inspect.signature(MODELS.get(name).config_class.__init__).parameters
        assert "block_length" not in given, name
    sampler = {"name": "low_confidence", "answer_length": 16, "steps": 4, "block_size": 8}
    with pytest.raises(RecipeError, match=r"sampler\.block_length"):
        load_checked(recipe(tmp_path, sampler=sampler))


class LovesToEnd(torch.nn.Module):
    """The end token is likeliest everywhere, then the end of the turn, then token 2."""

    mask_id, stop_ids, block_size = MASK, (EOS, EOT), None

    def forward(self, ids, attend=None, *, logits_at=None, **_):
        logits = torch.zeros(*ids.shape, MASK + 1)
        logits[..., EOS], logits[..., EOT], logits[..., 2] = 5.0, 3.0, 2.0
        return SimpleNamespace(logits=logits if logits_at is None else logits[logits_at])


def test_s13_what_happens_to_end_tokens_is_an_option_that_the_rollout_remembers():
    options = {"answer_length": 6, "block_length": 6, "steps": 6, "temperature": 0.0}
    seen = {}
    for rule in ("none", "logits_inf", "confidence_inf"):
        rollout = LowConfidence(end_rule=rule, **options)(LovesToEnd(), prompts([1]), KEY)
        assert rollout.sampler.end_rule == rule
        seen[rule] = rollout.tokens_BL[0, -6:].tolist()
    assert seen["none"] == [EOS] * 6
    assert EOS not in seen["logits_inf"]
    assert seen["confidence_inf"].count(EOS) == 6  # drawn, but last of all
    with pytest.raises(ValidationError, match="end_rule"):
        LowConfidence(end_rule="sometimes", **options)


def test_s14_a_text_without_blanks_comes_back_and_costs_nothing():
    policy = table({0: 0.5}, {1: 0.8}, {2: 0.3}, {3: 0.6})
    text = torch.tensor([[4, 0, 1, 3]])
    batch = replace(prompts([1, 2]), answer_BN=text)
    rollout = SAMPLERS.get("infill")(answer_length=4)(policy, batch, Key(0, 0, "sample"))
    assert torch.equal(rollout.tokens_BL[:, -4:], text) and rollout.forwards == 0
    blank = replace(prompts([1, 2]), answer_BN=torch.tensor([[4, MASK, 1, 3]]))
    rollout = SAMPLERS.get("infill")(answer_length=4)(policy, blank, Key(0, 0, "sample"))
    assert rollout.tokens_BL[0, [2, 4, 5]].tolist() == [4, 1, 3] and rollout.forwards == 1
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        LowConfidence(answer_length=0)


def test_s16_dynamic_decoding_is_off_unless_it_is_asked_for():
    for name in SAMPLERS.names():
        sampler = SAMPLERS.get(name)()
        assert getattr(sampler, "threshold", None) is None or "static" in str(
            getattr(sampler, "remask", "")
        ), name
