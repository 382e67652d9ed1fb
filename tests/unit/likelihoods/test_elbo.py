"""ELBO likelihood: subsets and weights, and exactness by enumerating every draw."""

import itertools

import pytest
import torch

from dllmzoo.laws import toy
from dllmzoo.records import Estimate, Key, Units, take
from dllmzoo.zoo import LIKELIHOODS, LOSSES
from tests.strategies import played

Elbo = LIKELIHOODS.get("elbo")
KEY = Key(5, 0, "views")


def scripted(size_B, order_BL):
    """A key whose numbers are given: those that draw sizes, and those that order the slots."""

    class Scripted(Key):
        def uniform(self, sample_B, *shape):
            return size_B.unsqueeze(1) if self.purpose.endswith("/size") else order_BL

    return Scripted(0, 0, "views")


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_mean_over_every_draw_is_the_exact_elbo(n):
    # every size k and every order of the slots, equally likely: n * n! rows
    orders = list(itertools.permutations(range(n)))
    rows = [(k, order) for k in range(n) for order in orders]
    size_B = torch.tensor([(k + 0.5) / n for k, _ in rows])
    order_BN = torch.tensor([[(i + 0.5) / n for i in order] for _, order in rows])
    policy, tokens = toy.TableDenoiser(slots=n, seed=n), torch.arange(n) % 2
    rollout = toy.answered(tokens, len(rows))
    prompt = rollout.tokens_BL.shape[1] - n
    order_BL = torch.nn.functional.pad(order_BN, (prompt, 0))
    likelihood = Elbo(views=1)
    views = likelihood.plan(rollout, None, scripted(size_B, order_BL), 1)
    assert len({tuple(row.flatten().tolist()) for row in views.score_BKL}) == 2**n - 1
    pooled = likelihood.pool(
        toy.logprobs(policy, rollout, views), views, rollout, torch.zeros(len(rows), 1)
    )
    # the weights n / k are float32
    torch.testing.assert_close(
        pooled.score_BU.mean(), toy.elbo(policy, tokens), rtol=1e-7, atol=1e-12
    )


def test_weights_are_length_over_size_and_views():
    rollout = played([[1, 2, 3, 4]] * 20, [[0, 1, 2, 3]] * 20)
    views = Elbo(views=3).plan(rollout, None, KEY, 1)
    size_BK = views.score_BKL.sum(2)
    assert size_BK.min() == 1 and size_BK.max() == 4
    expected_BK = 4 / size_BK / 3
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
