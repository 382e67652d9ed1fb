"""Masked-tokens likelihood: rates, the grid over passes, and units."""

import pytest
import torch

from dllmzoo.records import Key
from dllmzoo.zoo import LIKELIHOODS
from tests.scripted import hiding, script
from tests.strategies import played

MaskedTokens = LIKELIHOODS.get("masked_tokens")
KEY = Key(5, 0, "views")


def rows(number):
    # 5 is the end token: 3 valid slots of 4
    return played([[1, 2, 5, 3]] * number, [[0, 1, 2, 3]] * number)


def test_hidden_valid_tokens_are_scored_with_weight_1():
    mask = torch.tensor([[False, True, False, True, True]])
    views = MaskedTokens().plan(
        rows(1), None, script(rate=torch.tensor([0.5]), view0=hiding(mask)), 1
    )
    assert views.score_BKL[0, 0].tolist() == [False, True, False, True, False]
    assert views.hide_BKL[0, 0].tolist() == [False, True, False, True, True]
    assert torch.equal(views.weight_BKL, views.score_BKL.float())
    logprob_BKL = torch.tensor([[[0.0, -1.0, 0.0, -3.0, 0.0]]])
    pooled = MaskedTokens().pool(logprob_BKL, views, rows(1), views.size_BU)
    assert pooled.score_BU.tolist() == [[0.0, -1.0, 0.0, -3.0, 0.0]]
    assert views.live_BU.tolist() == [[False, True, False, True, False]]


def test_a_token_hidden_by_two_views_is_two_units():
    both = hiding(torch.tensor([[False, True, True, False, False]]))
    key = script(rate=torch.tensor([[0.5, 0.5]]), view0=both, view1=both)
    views = MaskedTokens(views=2).plan(rows(1), None, key, 1)
    assert views.size_BU.shape == (1, 10)
    assert views.unit_BKL[views.score_BKL].tolist() == [1, 2, 6, 7]
    logprob_BKL = torch.where(views.score_BKL, torch.tensor([[[-1.0], [-2.0]]]), 0)
    pooled = MaskedTokens(views=2).pool(logprob_BKL, views, rows(1), views.size_BU)
    assert pooled.score_BU[0, [1, 2, 6, 7]].tolist() == [-1.0, -1.0, -2.0, -2.0]
    assert views.live_BU.sum().item() == 4


def test_a_view_that_hides_nothing_scores_nothing():
    nothing = hiding(torch.zeros(1, 5, dtype=torch.bool))
    views = MaskedTokens().plan(rows(1), None, script(rate=torch.tensor([0.0]), view0=nothing), 1)
    assert not views.score_BKL.any() and not views.live_BU.any()


def test_rates_lie_between_low_and_high():
    for draw, hidden in ((0.0, 0.25), (1.0, 0.75)):
        # a number just below the rate is hidden, one just above is not
        for number, scored in ((hidden - 1e-6, True), (hidden + 1e-6, False)):
            slots = torch.stack([torch.full((1, 5), number), torch.zeros(1, 5)], 2)
            key = script(rate=torch.tensor([draw]), view0=slots)
            views = MaskedTokens(low=0.25, high=0.75).plan(rows(1), None, key, 1)
            assert views.score_BKL[0, 0, 1].item() is scored


def shares(likelihood, pass_, num_passes, number=400):
    """Share of the valid tokens that each view of many long answers hides."""
    rollout = played([[1, 2, 3, 4] * 4] * number, [[0] * 16] * number)
    views = likelihood.plan(rollout, None, Key(5, 0, "views", pass_), num_passes)
    return views.score_BKL[..., 1:].float().mean(2)


def test_the_grid_rises_over_passes_and_views_with_one_offset():
    # 2 passes of 2 views: cells of a quarter, in order
    means = [shares(MaskedTokens(views=2, grid=True), p, 2).mean(0).tolist() for p in (0, 1)]
    assert means[0] + means[1] == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.03)
    # one offset for a response: 0.5 in pass 0 of 2 is the place 0.25, in pass 1 the place 0.75
    for pass_, rate in ((0, 0.25), (1, 0.75)):
        for number, scored in ((rate - 1e-6, True), (rate + 1e-6, False)):
            slots = torch.stack([torch.full((1, 5), number), torch.zeros(1, 5)], 2)
            key = script(grid=torch.tensor([0.5]), view0=slots)
            key = type(key)(0, 0, "views", pass_, key.numbers)
            views = MaskedTokens(grid=True).plan(rows(1), None, key, 2)
            assert views.score_BKL[0, 0, 1].item() is scored


def test_the_offset_of_the_grid_is_the_same_in_every_pass():
    # the expected share of a response rises by exactly half from pass 0 to pass 1 of 2
    first, second = (shares(MaskedTokens(grid=True), p, 2, 2000)[:, 0] for p in (0, 1))
    assert torch.corrcoef(torch.stack([first, second]))[0, 1] > 0.3


def test_without_a_grid_rates_are_uniform_and_fresh_in_every_pass():
    share = shares(MaskedTokens(), 0, 4, 2000)[:, 0]
    assert share.mean().item() == pytest.approx(0.5, abs=0.03)
    # uniform p, 16 slots: the number hidden is uniform in 0..16, standard deviation 4.9 / 16
    assert share.std().item() == pytest.approx(24**0.5 / 16, abs=0.02)
    other = shares(MaskedTokens(), 1, 4, 2000)[:, 0]
    assert abs(torch.corrcoef(torch.stack([share, other]))[0, 1]) < 0.1


def test_facts_of_the_part():
    likelihood = MaskedTokens(views=3)
    assert likelihood.num_forwards == 3 and likelihood.unit == "slot"
    assert likelihood.random and likelihood.linear and not likelihood.uses_steps
    assert MaskedTokens().plan(rows(1), None, KEY, 1).temperature == 1.0
    assert MaskedTokens(temperature=0.5).plan(rows(1), None, KEY, 1).temperature == 0.5


def test_an_empty_range_is_refused():
    with pytest.raises(ValueError, match=r"low 0\.6 is above high 0\.5; use low <= high"):
        MaskedTokens(low=0.6, high=0.5)
