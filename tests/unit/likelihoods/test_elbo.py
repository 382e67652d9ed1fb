"""ELBO likelihood: subsets and weights, and exactness by enumerating every draw."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.laws import toy
from dllmzoo.records import Estimate, Key, Units, take
from dllmzoo.zoo import LIKELIHOODS, LOSSES
from tests.scripted import hiding, ranking, script
from tests.strategies import played

Elbo = LIKELIHOODS.get("elbo")
KEY = Key(5, 0, "views")


def test_weights_are_length_over_size_and_views():
    rollout = played([[1, 2, 3, 4]] * 20, [[0, 1, 2, 3]] * 20)
    views = Elbo(views=3).plan(rollout, None, KEY, 1)
    size_BK = views.score_BKL.sum(2)
    assert size_BK.min() == 1 and size_BK.max() == 4
    expected_BK = 4 / size_BK.double() / 3
    weight_BK = views.weight_BKL.amax(2)
    torch.testing.assert_close(weight_BK, expected_BK)
    assert not views.weight_BKL[~views.score_BKL].any()
    assert views.size_BU.tolist() == [[4.0]] * 20
    assert views.live_BU.all()


def test_slots_behind_the_end_are_always_hidden_and_never_scored():
    # 5 is the end token
    rollout = played([[1, 5, 2, 3]] * 30, [[0, 1, 2, 3]] * 30)
    views = Elbo().plan(rollout, None, KEY, 1)
    assert views.hide_BKL[:, :, -2:].all()
    assert not views.score_BKL[:, :, -2:].any()
    assert not views.hide_BKL[:, :, 0].any()
    assert torch.equal(views.hide_BKL[:, :, :3], views.score_BKL[:, :, :3])
    assert views.size_BU.unique().tolist() == [2.0]


def test_sizes_and_subsets_are_uniform():
    rollout = played([[1, 2, 3]] * 3000, [[0, 1, 2]] * 3000)
    views = Elbo(views=1).plan(rollout, None, KEY, 1)
    size_B = views.score_BKL.sum((1, 2))
    # 3000 draws of rate 1/3: standard deviation 0.009
    for k in (1, 2, 3):
        assert (size_B == k).float().mean().item() == pytest.approx(1 / 3, abs=0.04)
    singles = views.score_BKL[size_B == 1][:, 0, 1:].float().mean(0)
    assert singles.tolist() == pytest.approx([1 / 3] * 3, abs=0.07)


def test_views_passes_and_purposes_draw_their_own_masks():
    rollout = played([[1, 2, 3, 4, 1, 2]] * 8, [[0, 1, 2, 3, 4, 5]] * 8)

    def masks(key):
        return Elbo(views=2).plan(rollout, None, key, 2).score_BKL

    first = masks(KEY)
    assert not torch.equal(first[:, 0], first[:, 1])
    assert torch.equal(first, masks(KEY))
    assert not torch.equal(first, masks(Key(5, 0, "views", 1)))
    assert not torch.equal(first, masks(Key(5, 0, "old_views")))


def test_a_rows_masks_do_not_depend_on_the_other_rows():
    rollout = played([[1, 2, 3]] * 5, [[0, 1, 2]] * 5)
    whole = Elbo().plan(rollout, None, KEY, 1).score_BKL
    rows = torch.tensor([4, 1])
    assert torch.equal(Elbo().plan(take(rollout, rows), None, KEY, 1).score_BKL, whole[rows])


def test_forwards_and_sharing_follow_the_options():
    assert Elbo(views=3).num_forwards == 3
    assert Elbo().shares_masks and not Elbo(shares_masks=False).shares_masks
    assert Elbo().unit == "sequence" and Elbo().random and not Elbo().linear


def test_the_gradient_through_a_leaf_is_that_of_direct_autograd():
    policy = toy.TableDenoiser()
    rollout = toy.answered(torch.tensor([0, 1, 1]), 4)
    likelihood, loss = Elbo(), LOSSES.get("stable_drl")(clip_low=0.5, clip_high=0.5)
    views = likelihood.plan(rollout, None, KEY, 1)
    advantage_BU = torch.tensor([[1.0], [-0.5], [0.25], [-0.75]])
    old_BU = torch.tensor([[-2.0], [-1.0], [-3.0], [-2.5]])

    def value(logprob_BKL):
        new = likelihood.pool(logprob_BKL, views, rollout, advantage_BU)
        units = Units.of(views, rollout)
        return loss(new, Estimate(old_BU, old_BU), None, advantage_BU, units)[0]

    direct_BKL = toy.logprobs(policy, rollout, views)
    (direct,) = torch.autograd.grad(value(direct_BKL), policy.table, retain_graph=True)
    leaf_BKL = direct_BKL.detach().requires_grad_()
    value(leaf_BKL).backward()
    (replayed,) = torch.autograd.grad(direct_BKL, policy.table, leaf_BKL.grad)
    assert direct.any()
    torch.testing.assert_close(replayed, direct, rtol=0, atol=1e-10)


def test_temperature_is_the_samplers_unless_given():
    rollout = played([[1, 2, 3]], [[0, 1, 2]], temperature=0.7)
    assert Elbo().plan(rollout, None, KEY, 1).temperature == 0.7
    assert Elbo(temperature=0.5).plan(rollout, None, KEY, 1).temperature == 0.5


ONE = [[1, 2, 3, 4]], [[0, 1, 2, 3]]
"""An answer of 4 tokens without end."""


def led(likelihood, size, **slots):
    """The plan of one row of 4 tokens, by written numbers; `size` are the draws of its views."""
    key = script(size=torch.tensor([size]), **slots)
    return likelihood.plan(played(*ONE), None, key, 1)


def test_plus_one_counts_from_nothing_and_an_empty_view_scores_nothing():
    # place 0 of 0..4 is 0 tokens, place 0.65 is floor(0.65 * 5) = 3 of weight 5 / 3, halved
    first = ranking(torch.tensor([[False, True, True, True, False]]))
    views = led(Elbo(weight="plus_one"), [0.0, 0.65], view0=first, view1=first)
    assert views.score_BKL.sum(2).tolist() == [[0, 3]]
    assert not views.hide_BKL[0, 0].any()
    assert views.weight_BKL.amax(2)[0].tolist() == pytest.approx([0.0, 5 / 6])
    pooled = Elbo().pool(-views.score_BKL.float(), views, played(*ONE), views.size_BU)
    assert pooled.score_BU.item() == pytest.approx(-2.5)


def test_uniform_t_weighs_with_one_over_t():
    # draws 0.75 and 0.5: t = 0.25 and 0.5, weights 4 / 2 and 2 / 2
    mask = torch.tensor([[False, True, False, False, True]])
    views = led(Elbo(subset="uniform_t"), [0.75, 0.5], view0=hiding(mask), view1=hiding(mask))
    assert torch.equal(views.score_BKL[0, 0], mask[0])
    assert views.weight_BKL.amax(2)[0].tolist() == [2.0, 1.0]


def test_uniform_t_weighs_with_the_schedules_rate_over_its_mask_probability():
    # cosine at t = 1/2: m = 1 - cos(pi / 4) = 0.29289, m' = pi / 2 sin(pi / 4) = 1.11072
    mask = torch.tensor([[False, True, False, False, False]])
    likelihood = Elbo(views=1, subset="uniform_t", schedule="cosine")
    views = led(likelihood, [0.5], view0=hiding(mask))
    assert views.weight_BKL.max().item() == pytest.approx(1.1107207 / 0.2928932)


def test_the_smallest_and_the_largest_t_have_finite_weights():
    # the largest number below 1 gives t = 2^-24, the number 0 gives t = 1
    nothing = hiding(torch.zeros(1, 5, dtype=torch.bool))
    views = led(Elbo(subset="uniform_t"), [1 - 2**-24, 0.0], view0=nothing, view1=nothing)
    assert not views.score_BKL[0, 0].any() and views.score_BKL[0, 1, 1:].all()
    something = hiding(torch.ones(1, 5, dtype=torch.bool))
    views = led(Elbo(views=1, subset="uniform_t"), [1 - 2**-24], view0=something)
    assert views.weight_BKL.max().item() == 2.0**24


def test_a_schedule_that_masks_nothing_for_a_while_has_no_infinite_weight():
    class Late:
        def mask_prob(self, t):
            return (2 * t - 1).clamp(min=0)

        def rate(self, t):
            return 2.0 * (t > 0.5)

    mask = hiding(torch.ones(1, 5, dtype=torch.bool))
    likelihood = Elbo(views=1, subset="uniform_t", schedule=Late())
    views = led(likelihood, [0.75], view0=mask)
    assert not views.score_BKL.any() and not views.weight_BKL.any()


def test_unweighted_views_take_the_mean_over_what_they_hide_times_the_length():
    # 2 of 4 hidden: weight 4 / 2 whatever t
    mask = torch.tensor([[False, True, False, False, True]])
    views = led(Elbo(views=1, subset="uniform_t", weight="none"), [0.9], view0=hiding(mask))
    assert views.weight_BKL.amax(2).tolist() == [[2.0]]


def test_strided_sizes_go_round_the_end():
    # 4 views of 4 tokens from the draw 0.6: k = 3, then 4, 1, 2
    ranks = ranking(torch.ones(1, 5, dtype=torch.bool))
    slots = {f"view{k}": ranks for k in range(4)}
    views = led(Elbo(views=4, spacing="strided"), [0.6], **slots)
    assert views.score_BKL.sum(2).tolist() == [[3, 4, 1, 2]]


def test_stratified_sizes_take_each_part_of_the_range():
    ranks = ranking(torch.ones(1, 5, dtype=torch.bool))
    for draw in (0.1, 0.9):
        views = led(Elbo(spacing="stratified"), [draw, draw], view0=ranks, view1=ranks)
        first, second = views.score_BKL.sum(2)[0].tolist()
        assert first in (1, 2) and second in (3, 4)


def test_a_view_can_be_a_unit_of_its_own():
    # BGPO: 2 of 4 hidden weigh 4 / 2, not averaged over views; each unit stands for 4 tokens
    rollout = played([[1, 2, 3, 4]] * 20, [[0, 1, 2, 3]] * 20)
    likelihood = Elbo(views=3, unit="view", spacing="strided")
    views = likelihood.plan(rollout, None, KEY, 1)
    assert views.size_BU.tolist() == [[4.0] * 3] * 20
    torch.testing.assert_close(views.weight_BKL.amax(2), 4 / views.score_BKL.sum(2).double())
    pooled = likelihood.pool(-views.score_BKL.float(), views, rollout, views.size_BU)
    torch.testing.assert_close(pooled.score_BU, torch.full((20, 3), -4.0))
    assert likelihood.unit == "view"


def test_block_random_weighs_with_length_over_hidden_tokens():
    rollout = played([[1, 2, 3, 4, 5, 0]] * 40, [[0, 1, 2, 3, 4, 5]] * 40)
    likelihood = Elbo(masks="block_random", block_length=2)
    views = likelihood.plan(rollout, None, KEY, 1)
    hidden_BK = views.score_BKL.sum(2).double()
    torch.testing.assert_close(views.weight_BKL.amax(2), 5 / hidden_BK / 2)
    assert not views.score_BKL[..., -1].any() and views.hide_BKL[..., -1].all()
    assert views.hide_BKL[..., 0].any(), "the prompt is noised"
    assert (
        not likelihood.pool(-views.score_BKL.float(), views, rollout, views.size_BU)
        .score_BU.add(5)
        .gt(1e-5)
        .any()
    )


def test_independent_draws_are_told_from_spaced_ones():
    assert Elbo(views=3).num_draws == 3
    assert Elbo(views=3, spacing="strided").num_draws == 1
    assert Elbo(views=3, masks="block_random").num_draws == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedule": "cosine"}, "schedule .* no meaning with subset uniform_k"),
        ({"masks": "block_random", "spacing": "strided"}, "spacing strided: no meaning with masks"),
        ({"prefix_noise": 0.5, "block_length": 2}, "block_length 2, prefix_noise 0.5: no meaning"),
        (
            {"subset": "uniform_t", "weight": "plus_one", "schedule": "cosine"},
            "plus_one needs .* use schedule linear, or weight elbo",
        ),
    ],
)
def test_options_that_say_nothing_are_refused(options, said):
    with pytest.raises(ValueError, match=said) as caught:
        Elbo(**options)
    assert isinstance(caught.value.errors()[0]["ctx"]["error"], UsageError)


def test_log_probs_keep_their_precision_in_the_pool():
    rollout = played(*ONE)
    views = Elbo().plan(rollout, None, KEY, 1)
    for dtype in (torch.float32, torch.float64):
        logprob_BKL = -views.score_BKL.to(dtype)
        assert Elbo().pool(logprob_BKL, views, rollout, views.size_BU).score_BU.dtype == dtype


@pytest.mark.parametrize("subset", ["uniform_k", "uniform_t"])
def test_an_answer_that_was_given_whole_scores_nothing(subset):
    rollout = played([[1, 2]], [[0, 1]])
    empty = torch.zeros_like(rollout.answer_BL)
    rollout = replace(rollout, answer_BL=empty, valid_BL=empty)
    likelihood = Elbo(subset=subset)
    views = likelihood.plan(rollout, None, KEY, 1)
    assert not views.score_BKL.any() and views.weight_BKL.isfinite().all()
    pooled = likelihood.pool(torch.zeros(1, 2, 3), views, rollout, views.size_BU)
    assert pooled.score_BU.tolist() == [[0.0]] and not views.live_BU.any()
