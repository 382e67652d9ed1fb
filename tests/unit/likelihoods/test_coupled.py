"""Coupled likelihood: twins, weights, strata."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.records import Key, take
from dllmzoo.zoo import LIKELIHOODS
from tests.scripted import hiding, ranking, script
from tests.strategies import played

Coupled = LIKELIHOODS.get("coupled")
KEY = Key(5, 0, "views")
MASK = torch.tensor([[False, True, False, True, False]])
"""Of the slots of `row`: the first and the third."""


def row(tokens=(1, 2, 3, 4)):
    return played([list(tokens)], [[0, 1, 2, 3]])


def test_a_token_is_half_the_full_view_and_half_the_weighted_twin():
    # t = 0.2 + 0.6 * 0.5 = 0.5: weights 1/2, 1 / (2 * 0.5) = 1, 1
    key = script(draw0=hiding(MASK), draw0__place=torch.tensor([0.5]))
    likelihood = Coupled(stratified=False)
    views = likelihood.plan(row(), None, key, 1)
    assert views.hide_BKL[0].int().tolist() == [[0, 1, 1, 1, 1], [0, 1, 0, 1, 0], [0, 0, 1, 0, 1]]
    assert torch.equal(views.score_BKL, views.hide_BKL)
    logprob_BKL = torch.tensor([[[0, -1, -2, -3, -4.0], [0, -5, 0, -6, 0], [0, 0, -7, 0, -8]]])
    pooled = likelihood.pool(logprob_BKL, views, row(), views.size_BU)
    # -1/2 - 5, -2/2 - 7, -3/2 - 6, -4/2 - 8
    assert pooled.score_BU.tolist() == [[0.0, -5.5, -8.0, -7.5, -10.0]]
    assert views.size_BU.unique().tolist() == [1.0] and views.size_BU.shape == (1, 5)


def test_token_weights_follow_t_and_its_complement():
    # t = 0.2 + 0.6 * 0.25 = 0.35: 1 / 0.7 and 1 / 1.3
    key = script(draw0=hiding(MASK), draw0__place=torch.tensor([0.25]))
    views = Coupled(stratified=False).plan(row(), None, key, 1)
    assert views.weight_BKL.amax(2)[0].tolist() == pytest.approx([0.5, 1 / 0.7, 1 / 1.3])


def test_token_draws_are_averaged_beside_one_full_view():
    # t = 0.5 in both draws: full 1/2, partial 1 / (2 * 0.5) / 2 = 1/2 each
    place = torch.tensor([0.5])
    key = script(draw0=hiding(MASK), draw0__place=place, draw1=hiding(~MASK), draw1__place=place)
    likelihood = Coupled(draws=2, stratified=False)
    views = likelihood.plan(row(), None, key, 1)
    assert views.weight_BKL.amax(2)[0].tolist() == [0.5] * 5
    assert likelihood.num_forwards == 5 and likelihood.num_draws == 1
    pooled = likelihood.pool(-views.score_BKL.float(), views, row(), views.size_BU)
    # 1/2 + 1/2 + 1/2
    assert pooled.score_BU[0, 1:].tolist() == [-1.5] * 4


def test_the_pair_of_the_elbo_weighs_both_sides():
    # 2 of 4 by count place: 2 / 5 * 5 = 2, 5 / 2 / 2 = 1.25 on both sides
    key = script(draw0=ranking(MASK), draw0__place=torch.tensor([0.4]))
    likelihood = Coupled(form="elbo", stratified=False)
    views = likelihood.plan(row(), None, key, 1)
    assert torch.equal(views.hide_BKL[0, 0], MASK[0])
    assert views.weight_BKL.amax(2).tolist() == [[1.25, 1.25]]
    assert views.size_BU.tolist() == [[4.0]]
    logprob_BKL = torch.tensor([[[0, -1, 0, -2, 0], [0, 0, -3, 0, -4.0]]])
    pooled = likelihood.pool(logprob_BKL, views, row(), views.size_BU)
    assert pooled.score_BU.item() == pytest.approx(-1.25 * 10)


def test_an_empty_mask_leaves_everything_to_its_twin():
    # x = 0: the twin weighs 5 / 4 / 2
    key = script(draw0=ranking(MASK), draw0__place=torch.tensor([0.0]))
    views = Coupled(form="elbo", stratified=False).plan(row(), None, key, 1)
    assert views.score_BKL.sum(2).tolist() == [[0, 4]]
    assert views.weight_BKL.amax(2)[0].tolist() == [0.0, 0.625]
    assert views.weight_BKL.isfinite().all()


def test_draws_of_the_elbo_are_averaged():
    place = torch.tensor([0.4])
    key = script(draw0=ranking(MASK), draw0__place=place, draw1=ranking(~MASK), draw1__place=place)
    likelihood = Coupled(form="elbo", draws=2, stratified=False)
    views = likelihood.plan(row(), None, key, 1)
    assert views.weight_BKL.amax(2)[0].tolist() == [0.625] * 4
    assert likelihood.num_forwards == 4 and likelihood.num_draws == 2
    # views 0 and 1 are draw 0: a mask and its complement
    assert torch.equal(views.score_BKL[0, 0] ^ views.score_BKL[0, 1], row().valid_BL[0])
    assert torch.equal(views.score_BKL[0, 2] ^ views.score_BKL[0, 3], row().valid_BL[0])


@pytest.mark.parametrize("form", ["token", "elbo"])
def test_slots_behind_the_end_are_hidden_and_not_scored_unless_the_canvas_counts(form):
    # 5 is the end token: 2 valid slots of 4
    rollout = played([[1, 5, 2, 3]] * 30, [[0, 1, 2, 3]] * 30)
    views = Coupled(form=form).plan(rollout, None, KEY, 1)
    assert views.hide_BKL[..., -2:].all() and not views.score_BKL[..., -2:].any()
    whole = Coupled(form=form, over="canvas").plan(rollout, None, KEY, 1)
    pair = whole.score_BKL[:, -2:]
    assert torch.equal(pair[:, 0] ^ pair[:, 1], rollout.answer_BL)
    assert torch.equal(whole.hide_BKL, whole.score_BKL)
    assert not whole.hide_BKL[:, -1, -1].all()
    if form == "elbo":
        assert views.size_BU.unique().tolist() == [2.0]
        assert whole.size_BU.unique().tolist() == [4.0]


def test_strata_spread_a_shared_draw_over_consecutive_samples():
    # 4 samples, n + 1 = 8: strides of 2 from 0.3 * 8 = 2.4, rounded: 2, 4, 6, 8 = 0
    rollout = played([[1, 2, 3, 4, 1, 2, 3]] * 4, [[0] * 7] * 4)
    order = torch.arange(8.0).expand(4, 8) / 8
    key = script(draw0=order, draw0__place=torch.full((4,), 0.3))
    views = Coupled(form="elbo", strata=4).plan(rollout, None, key, 1)
    assert views.score_BKL[:, 0].sum(1).tolist() == [2, 4, 6, 0]


def test_each_block_of_strata_draws_anew_and_ignores_the_batch():
    rollout = played([[1, 2, 3, 4] * 8] * 12, [[0] * 32] * 12)
    likelihood = Coupled(form="elbo", strata=3)
    views = likelihood.plan(rollout, None, KEY, 1)
    sizes = views.score_BKL[:, 0].sum(1).view(4, 3)
    # n + 1 = 33: strides of 11
    assert ((sizes[:, 1:] - sizes[:, :-1]) % 33 == 11).all()
    assert len(sizes[:, 0].unique()) > 1
    rows = torch.tensor([7, 2])
    alone = likelihood.plan(take(rollout, rows), None, KEY, 1)
    assert torch.equal(alone.score_BKL, views.score_BKL[rows])


@pytest.mark.parametrize("number", [5, 24, 60])
def test_all_samples_of_a_round_are_spread_without_knowing_their_number(number):
    rollout = played([[1, 2, 3, 4] * 24 + [1, 2, 3]] * number, [[0] * 99] * number)
    sizes = Coupled(form="elbo").plan(rollout, None, KEY, 1).score_BKL[:, 0].sum(1)
    # n + 1 = 100: no gap round the circle above 2.7 times the mean one
    gaps = sizes.sort().values.diff(append=sizes.min()[None] + 100)
    assert gaps.max().item() <= 270 / number + 1
    apart = Coupled(form="elbo", stratified=False).plan(rollout, None, KEY, 1)
    assert not torch.equal(apart.score_BKL[:, 0].sum(1), sizes)


def test_stratified_rates_of_tokens_stay_between_low_and_high():
    rollout = played([[1, 2, 3, 4]] * 50, [[0, 1, 2, 3]] * 50)
    weight_BK = 2 * Coupled(draws=2).plan(rollout, None, KEY, 1).weight_BKL.amax(2)[:, 1:]
    # of each draw 1 / (2 t) or 1 / (2 (1 - t)), or 0 where a side is empty
    used = weight_BK[weight_BK > 0]
    assert used.min() >= 1 / 1.6 - 1e-9 and used.max() <= 1 / 0.4 + 1e-9


def test_every_sample_draws_its_own_mask_and_every_pass_anew():
    rollout = played([[1, 2, 3, 4] * 4] * 6, [[0] * 16] * 6)
    first = Coupled(form="elbo").plan(rollout, None, KEY, 2).score_BKL
    assert len({tuple(mask.flatten().tolist()) for mask in first}) == 6
    again = Coupled(form="elbo").plan(rollout, None, replace(KEY, pass_=1), 2).score_BKL
    assert not torch.equal(first, again)


def test_facts_of_the_forms():
    token, elbo = Coupled(), Coupled(form="elbo")
    assert (token.unit, token.num_forwards) == ("slot", 3)
    assert (elbo.unit, elbo.num_forwards) == ("sequence", 2)
    for likelihood in (token, elbo):
        assert likelihood.random and not likelihood.linear and likelihood.shares_masks
    assert LIKELIHOODS.get("espo") is LIKELIHOODS.get("coupled_grpo") is Coupled


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"low": 0.9}, "low 0.9 is above high 0.8"),
        ({"form": "elbo", "low": 0.3}, "low 0.3: no meaning with form elbo"),
        ({"stratified": False, "strata": 4}, "strata 4: no meaning with stratified false"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Coupled(**options)
