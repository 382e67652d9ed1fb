"""The sandwich: both bounds by hand, which of them is trained, and what the ratio reads."""

import math
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.laws import toy
from dllmzoo.likelihoods._bounds import bound_views, upper_bound
from dllmzoo.records import Key, Units
from dllmzoo.scoring import replay, score
from dllmzoo.zoo import LIKELIHOODS, LOSSES
from tests.strategies import played

Sandwich = LIKELIHOODS.get("sandwich")
KEY = Key(1, 0, "views")
GOOD, BAD = torch.ones(1, 1), -torch.ones(1, 1)

# two tokens, two views: the first hides slot 1 (-1 nat), the second both (-2 and -3 nats)
# E = 2 / 2 * (-1 / 1 + (-2 - 3) / 2) = -3.5
E = -3.5
# shares 1/2 and 1; b = 1: u_1 = (e^-1 / 0.5 + e^-2) / 2, u_2 = e^-3 / 2
# U = 2 / 1 * (ln u_1 + ln u_2) / 2 = -0.83114 - 3.69315
U1 = math.log(math.exp(-1) + math.exp(-2) / 2) + math.log(math.exp(-3) / 2)
# b = 2: u_1 = (e^-2 / 0.5 + e^-4) / 2, u_2 = e^-6 / 2; U = (ln u_1 + ln u_2) / 2
U2 = (math.log(math.exp(-2) + math.exp(-4) / 2) + math.log(math.exp(-6) / 2)) / 2


def by_hand():
    rollout = played([[1, 2]], [[0, 1]])
    score_BKL = torch.tensor([[[False, True, False], [False, True, True]]])
    views = bound_views(score_BKL, score_BKL, rollout, 1.0)
    logprob_BKL = torch.tensor([[[0.0, -1.0, 0.0], [0.0, -2.0, -3.0]]])
    return rollout, views, logprob_BKL


def pooled(advantage_BU, **options):
    rollout, views, logprob_BKL = by_hand()
    return Sandwich(**options).pool(logprob_BKL, views, rollout, advantage_BU)


def test_paper_name_is_an_alias():
    assert LIKELIHOODS.get("spg") is Sandwich


def test_good_answers_score_the_lower_bound_in_total_nats():
    assert pooled(GOOD).score_BU.item() == pytest.approx(E)


@pytest.mark.parametrize("advantage", [-1.0, -0.0, 0.0])
def test_other_answers_score_a_mixture(advantage):
    found = pooled(torch.full((1, 1), advantage), exponent=1.0, omega=0.25)
    assert found.score_BU.item() == pytest.approx(0.25 * U1 + 0.75 * E)


@pytest.mark.parametrize(
    ("negative", "value"), [("upper", U2), ("lower", E), ("zero", 0.0), ("mixture", (U2 + E) / 2)]
)
def test_what_answers_of_negative_advantage_score(negative, value):
    found = pooled(BAD, exponent=2.0, negative=negative)
    assert found.score_BU.item() == pytest.approx(value)


@pytest.mark.parametrize("negative", ["mixture", "upper", "lower", "zero"])
@pytest.mark.parametrize("advantage_BU", [GOOD, BAD])
def test_the_ratio_reads_the_lower_bound_for_either_sign(negative, advantage_BU):
    assert pooled(advantage_BU, negative=negative).ratio_BU.item() == pytest.approx(E)


def test_the_weights_of_the_views_give_the_lower_bound():
    _, views, logprob_BKL = by_hand()
    # n / (K m): 2 / (2 * 1) and 2 / (2 * 2)
    assert views.weight_BKL[views.score_BKL].tolist() == [1.0, 0.5, 0.5]
    assert (views.weight_BKL * logprob_BKL).sum().item() == pytest.approx(E)
    # the spread over draws: 2 draws of 2 * part are -2 and -5; std 3 / sqrt(2), of the mean 1.5
    part_K = (views.weight_BKL * logprob_BKL).sum((0, 2))
    assert part_K.tolist() == pytest.approx([-1.0, -2.5])
    assert Sandwich(views=4).num_draws == Sandwich(views=4).num_forwards == 4


def test_each_sign_of_a_batch_gets_its_bound():
    rollout, views, logprob_BKL = by_hand()
    two = replace(rollout, valid_BL=rollout.valid_BL.repeat(2, 1))
    views = replace(
        views, score_BKL=views.score_BKL.repeat(2, 1, 1), hide_BKL=views.hide_BKL.repeat(2, 1, 1),
        weight_BKL=views.weight_BKL.repeat(2, 1, 1), unit_BKL=views.unit_BKL.repeat(2, 1, 1),
        size_BU=views.size_BU.repeat(2, 1),
    )  # fmt: skip
    advantage_BU = torch.tensor([[2.0], [-2.0]])
    found = Sandwich(exponent=1.0, negative="upper").pool(
        logprob_BKL.repeat(2, 1, 1), views, two, advantage_BU
    )
    assert found.score_BU.squeeze(1).tolist() == pytest.approx([E, U1])
    assert found.ratio_BU.squeeze(1).tolist() == pytest.approx([E, E])


def test_gradient_of_the_upper_bound_is_shared_by_the_views_that_hit_a_slot():
    rollout, views, logprob_BKL = by_hand()
    leaf = logprob_BKL.clone().requires_grad_()
    Sandwich(exponent=1.0, negative="upper").pool(leaf, views, rollout, BAD).score_BU.backward()
    # n / hit slots = 1 for each slot; slot 1: e^-1 / 0.5 against e^-2 / 1
    first = math.exp(-1) / 0.5 / (math.exp(-1) / 0.5 + math.exp(-2))
    expected = torch.tensor([[[0.0, first, 0.0], [0.0, 1 - first, 1.0]]])
    torch.testing.assert_close(leaf.grad, expected)


def test_answers_left_out_have_no_gradient_and_no_missing_graph():
    rollout, views, logprob_BKL = by_hand()
    leaf = logprob_BKL.clone().requires_grad_()
    Sandwich(negative="zero").pool(leaf, views, rollout, BAD).score_BU.sum().backward()
    assert not leaf.grad.any()


def test_views_that_score_nothing_count_as_zero_in_e_and_not_at_all_in_u():
    rollout = played([[1, 2]], [[0, 1]])
    score_BKL = torch.tensor([[[False, True, True], [False, False, False]]])
    views = bound_views(score_BKL, score_BKL, rollout, 1.0)
    leaf = torch.tensor([[[0.0, -1.0, -2.0], [0.0, 0.0, 0.0]]], requires_grad=True)
    found = Sandwich(exponent=1.0, negative="upper").pool(leaf, views, rollout, BAD)
    # E = 2 * ((-1 - 2) / 2 + 0) / 2; U = 2 * mean(ln(e^-1 / 2), ln(e^-2 / 2))
    assert found.ratio_BU.item() == pytest.approx(-1.5)
    assert found.score_BU.item() == pytest.approx(-3 - 2 * math.log(2))
    found.score_BU.backward()
    assert leaf.grad.isfinite().all()


def test_an_answer_without_scored_slots_is_worth_nothing():
    rollout = played([[1, 2]], [[0, 1]])
    rollout = replace(rollout, valid_BL=torch.zeros_like(rollout.valid_BL))
    leaf = torch.zeros(1, 2, 3, requires_grad=True)
    for masks in ("block_random", "random", "block_all", "all"):
        part = Sandwich(masks=masks, negative="upper")
        views = part.plan(rollout, None, KEY, 1)
        assert not views.score_BKL.any() and not views.live_BU.any()
        found = part.pool(leaf, views, rollout, BAD)
        assert found.score_BU.item() == found.ratio_BU.item() == 0
        (grad,) = torch.autograd.grad(found.score_BU.sum(), leaf)
        assert not grad.any()


def test_very_unlikely_tokens_stay_in_the_upper_bound():
    # e^(-300 * 1.5) is 0 in float32 and in float64 close to it; in log space it is -450
    rollout = played([[1, 2]], [[0, 1]])
    score_BKL = torch.tensor([[[False, True, True]]])
    views = bound_views(score_BKL, score_BKL, rollout, 1.0)
    leaf = torch.tensor([[[0.0, -300.0, -1.0]]], requires_grad=True)
    value = upper_bound(leaf, views, 1.5)
    assert value.item() == pytest.approx(-301.0)
    value.backward()
    assert leaf.grad.tolist() == [[[0.0, 1.0, 1.0]]]


def test_constant_log_probs_give_the_same_e_under_every_law():
    rollout = played([[1, 1, 1, 5, 2, 2]] * 20, [[0] * 6] * 20)
    for masks in ("block_random", "random", "block_all", "all"):
        part = Sandwich(masks=masks, views=3, block_length=2)
        views = part.plan(rollout, None, KEY, 1)
        found = part.pool(-views.score_BKL.float(), views, rollout, torch.ones(20, 1))
        torch.testing.assert_close(found.score_BU, torch.full((20, 1), -4.0))
        assert views.size_BU.tolist() == [[4.0]] * 20


def test_by_default_only_random_masks_leave_the_prompt_alone():
    rollout = played([[1, 1]] * 300, [[0, 1]] * 300)

    def noise(**options):
        views = Sandwich(**options).plan(rollout, None, KEY, 1)
        return views.hide_BKL[..., 0].float().mean().item()

    assert noise(masks="random") == 0 and noise(masks="random", prefix_noise=0.5) > 0.4
    assert noise(masks="block_random") == pytest.approx(0.15, abs=0.05)
    assert noise(masks="block_random", prefix_noise=0.0) == 0


def test_only_wholly_hidden_answers_without_noise_are_alike_in_all_passes():
    assert Sandwich().random and Sandwich(masks="all").random
    assert not Sandwich(masks="all", prefix_noise=0.0).random


def test_options_out_of_range_are_refused():
    for wrong in ({"omega": 1.5}, {"exponent": 0.0}, {"views": 0}, {"negative": "both"}):
        with pytest.raises(ValidationError):
            Sandwich(**wrong)


@pytest.mark.parametrize("micro_batch", [1, 2, 5])
def test_the_gradient_through_the_leaf_is_the_direct_one(micro_batch):
    policy, rollout = toy.TableDenoiser(slots=3), toy.trajectories((1, 1, 1))
    policy.dtype = torch.float64
    part = Sandwich(masks="random", views=3)
    views = part.plan(rollout, None, KEY, 1)
    advantage_BU = torch.linspace(-1, 1, len(rollout.tokens_BL)).unsqueeze(1)
    loss, units = LOSSES.get("stable_drl")(), Units.of(views, rollout)

    direct = part.pool(toy.logprobs(policy, rollout, views), views, rollout, advantage_BU)
    old = replace(direct, ratio_BU=direct.ratio_BU.detach() + 0.1 * advantage_BU.square())
    (expected,) = torch.autograd.grad(loss(direct, old, None, advantage_BU, units)[0], policy.table)
    leaf = score(policy, rollout, views, micro_batch=micro_batch).logprob_BKL.requires_grad_()
    value, _ = loss(part.pool(leaf, views, rollout, advantage_BU), old, None, advantage_BU, units)
    (grad_BKL,) = torch.autograd.grad(value, leaf)
    replay(policy, rollout, views, grad_BKL, micro_batch=micro_batch)
    torch.testing.assert_close(policy.table.grad, expected, rtol=0, atol=1e-10)
