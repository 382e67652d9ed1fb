"""Quadrature likelihood: nodes, weights, draws."""

import pytest
import torch
from numpy.polynomial.legendre import leggauss

from dllmzoo.likelihoods.quadrature import gauss_legendre
from dllmzoo.records import Key
from dllmzoo.zoo import LIKELIHOODS
from tests.scripted import hiding, script
from tests.strategies import played

Quadrature = LIKELIHOODS.get("quadrature")
KEY = Key(5, 0, "views")


@pytest.mark.parametrize("number", [1, 2, 3, 5, 16, 33, 64])
def test_nodes_and_weights_are_those_of_gauss_and_legendre(number):
    node, share = leggauss(number)
    found, weight = gauss_legendre(number)
    assert list(found) == pytest.approx((node + 1) / 2, abs=1e-14)
    assert list(weight) == pytest.approx(share / 2, abs=1e-14)
    assert sum(weight) == pytest.approx(1.0, abs=1e-14)


def test_two_and_three_nodes_by_hand():
    # (1 +- 1 / sqrt 3) / 2; (1 +- sqrt 0.6) / 2 with weights 5/18, 8/18, 5/18
    assert gauss_legendre(2)[0] == pytest.approx((0.2113, 0.7887), abs=1e-4)
    assert gauss_legendre(2)[1] == pytest.approx((0.5, 0.5))
    assert gauss_legendre(3)[0] == pytest.approx((0.1127, 0.5, 0.8873), abs=1e-4)
    assert gauss_legendre(3)[1] == pytest.approx((5 / 18, 8 / 18, 5 / 18))


def test_a_view_weighs_with_node_weight_over_time_and_masks():
    # Q = 2, M = 2: 0.5 / 0.2113 / 2 = 1.1830, 0.5 / 0.7887 / 2 = 0.3170, then both again
    mask = hiding(torch.tensor([[False, True, False, True]]))
    key = script(**{f"view{k}": mask for k in range(4)})
    likelihood = Quadrature(masks=2)
    views = likelihood.plan(played([[1, 2, 3]], [[0, 1, 2]]), None, key, 1)
    weight = views.weight_BKL.amax(2)[0].tolist()
    assert weight == pytest.approx([1.1830127, 0.3169873, 1.1830127, 0.3169873])
    assert views.size_BU.tolist() == [[3.0]]
    assert (likelihood.num_forwards, likelihood.num_draws) == (4, 2)


def test_a_mask_that_hides_nothing_scores_nothing():
    nothing = hiding(torch.zeros(1, 4, dtype=torch.bool))
    views = Quadrature(nodes=1).plan(
        played([[1, 2, 3]], [[0, 1, 2]]), None, script(view0=nothing), 1
    )
    assert not views.score_BKL.any()
    pooled = Quadrature().pool(torch.zeros(1, 1, 4), views, None, None)
    assert pooled.score_BU.tolist() == [[0.0]]


def test_slots_are_hidden_with_the_probability_of_their_node():
    rollout = played([[1, 2, 3, 5, 1]] * 2000, [[0, 1, 2, 3, 4]] * 2000)
    views = Quadrature(nodes=3).plan(rollout, None, KEY, 1)
    # 5 is the end token: 4 valid slots
    share_K = views.score_BKL[..., 1:5].float().mean((0, 2)).tolist()
    assert share_K == pytest.approx([0.1127, 0.5, 0.8873], abs=0.02)
    assert views.hide_BKL[..., -1].all() and not views.score_BKL[..., -1].any()
    assert not views.hide_BKL[..., 0].any()


def test_times_are_fixed_and_masks_are_fresh_in_every_pass():
    rollout = played([[1, 2, 3, 4] * 4] * 4, [[0] * 16] * 4)
    first = Quadrature().plan(rollout, None, KEY, 2)
    second = Quadrature().plan(rollout, None, Key(5, 0, "views", 1), 2)
    assert not torch.equal(first.score_BKL, second.score_BKL)
    assert torch.equal(first.weight_BKL.amax((0, 2)), second.weight_BKL.amax((0, 2)))


@pytest.mark.parametrize("nodes", [0, 65])
def test_the_number_of_nodes_has_a_range(nodes):
    with pytest.raises(ValueError, match="nodes"):
        Quadrature(nodes=nodes)
