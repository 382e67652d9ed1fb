"""Mean-field likelihood: one fully hidden view, keyed prompt noise, slot and sequence units."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.laws import inputs
from dllmzoo.records import Key, take
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import played

MeanField = LIKELIHOODS.get("mean_field")
KEY = Key(3, 0, "views")


def with_prompt(tokens, width=40, *, pad=0, **settings):
    """A rollout with a prompt of `width` words behind `pad` padding positions."""
    B, L = len(tokens), pad + width
    attend_BL = (torch.arange(L) >= pad).expand(B, L)
    start = inputs.Prompts(
        torch.ones(B, L, dtype=torch.long), attend_BL, torch.zeros(B, dtype=torch.long),
        torch.arange(B), [{}] * B,
    )  # fmt: skip
    return played(tokens, [[0] * len(tokens[0])] * B, start=start, **settings)


def test_paper_names_are_aliases():
    assert LIKELIHOODS.get("full_mask") is LIKELIHOODS.get("diffu_grpo") is MeanField


def test_one_view_hides_the_answer_and_scores_its_valid_slots():
    # 5 is the end token: the third answer slot is not valid
    rollout = with_prompt([[1, 5, 2]], width=2)
    views = MeanField(prompt_noise=0.0).plan(rollout, None, KEY, 1)
    assert views.hide_BKL.int().tolist() == [[[0, 0, 1, 1, 1]]]
    assert views.score_BKL.int().tolist() == [[[0, 0, 1, 1, 0]]]
    assert views.live_BU.int().tolist() == [[0, 0, 1, 1, 0]]
    logprob_BKL = torch.tensor([[[0.0, 0.0, -1.0, -2.0, 0.0]]])
    pooled = MeanField().pool(logprob_BKL, views, rollout, torch.zeros(1, 1))
    assert pooled.score_BU.tolist() == [[0.0, 0.0, -1.0, -2.0, 0.0]]


def test_a_sequence_unit_sums_the_valid_slots():
    rollout = with_prompt([[1, 5, 2]], width=2)
    likelihood = MeanField(prompt_noise=0.0, unit="sequence")
    views = likelihood.plan(rollout, None, KEY, 1)
    logprob_BKL = torch.tensor([[[0.0, 0.0, -1.0, -2.0, 0.0]]])
    pooled = likelihood.pool(logprob_BKL, views, rollout, torch.zeros(1, 1))
    assert pooled.score_BU.tolist() == [[-3.0]]
    assert views.size_BU.tolist() == [[2.0]]


def test_only_the_prompt_is_noised_at_its_rate():
    rollout = with_prompt([[1, 2]] * 50)
    hide_BL = MeanField(prompt_noise=0.3).plan(rollout, None, KEY, 1).hide_BKL[:, 0]
    assert hide_BL[:, -2:].all()
    # 2000 draws of rate 0.3: standard deviation 0.01
    assert hide_BL[:, :-2].float().mean().item() == pytest.approx(0.3, abs=0.05)


def test_is_random_exactly_when_there_is_noise():
    assert MeanField().random and not MeanField(prompt_noise=0.0).random


def test_noise_differs_between_passes_and_samples_and_repeats_for_a_key():
    rollout = with_prompt([[1, 2]] * 4)

    def hidden(pass_):
        return MeanField().plan(rollout, None, Key(3, 0, "views", pass_), 2).hide_BKL

    assert torch.equal(hidden(0), hidden(0))
    assert not torch.equal(hidden(0), hidden(1))
    assert len({tuple(row.flatten().tolist()) for row in hidden(0)}) == 4


def test_a_rows_noise_depends_on_neither_padding_nor_neighbours():
    rollout, wide = with_prompt([[1, 2]] * 3), with_prompt([[1, 2]] * 3, pad=5)
    hide_BL = MeanField().plan(rollout, None, KEY, 1).hide_BKL[:, 0]
    wide_BL = MeanField().plan(wide, None, KEY, 1).hide_BKL[:, 0]
    assert torch.equal(wide_BL[:, 5:], hide_BL)
    assert not wide_BL[:, :5].any()
    rows = torch.tensor([2, 0])
    alone_BL = MeanField().plan(take(rollout, rows), None, KEY, 1).hide_BKL[:, 0]
    assert torch.equal(alone_BL, hide_BL[rows])


def test_temperature_is_the_samplers_unless_given():
    rollout = with_prompt([[1]], temperature=0.7)
    assert MeanField().plan(rollout, None, KEY, 1).temperature == 0.7
    assert MeanField(temperature=1.0).plan(rollout, None, KEY, 1).temperature == 1.0


@pytest.mark.parametrize("noise", [1.0, -0.1])
def test_noise_is_a_probability_below_one(noise):
    with pytest.raises(ValidationError):
        MeanField(prompt_noise=noise)


def test_slots_given_inside_the_answer_stay_in_sight_and_are_not_scored():
    rollout = played([[1, 2, 3]] * 100, [[0, -1, 0]] * 100)
    given = torch.tensor([[False, False, True, False]])
    rollout = replace(
        rollout, answer_BL=rollout.answer_BL & ~given, valid_BL=rollout.valid_BL & ~given
    )
    views = MeanField(prompt_noise=0.9).plan(rollout, None, KEY, 1)
    assert not views.hide_BKL[..., 2].any() and not views.score_BKL[..., 2].any()
    assert views.hide_BKL[..., [1, 3]].all() and views.hide_BKL[..., 0].any()
    assert MeanField(unit="sequence").plan(rollout, None, KEY, 1).size_BU.unique().tolist() == [2.0]
