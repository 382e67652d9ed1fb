"""Injected noise on log-ratios: what it does to each loss, against the closed forms and a table.

A group has 16 samples of advantage +1 or -1, whose scores are unit vectors of 64 dimensions; the
policy has not moved, so every ratio is the injected noise (arXiv:2603.06743).
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllmzoo.records import Key
from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, seeds, units

G, WIDTH = 16, 64
GRPO = {
    "name": "clipped_surrogate", "kl": "none", "normaliser": "unit", "clip_low": 0.2,
    "clip_high": 0.2,
}  # fmt: skip
NARROW = {"name": "stable_drl", "clip_low": 0.2, "clip_high": 0.2}
CAPPED = {"name": "stable_drl", "clip_low": None, "clip_high": 4.0}
OPEN = {"name": "stable_drl", "clip": False}
few = settings(max_examples=30)


def stressed(inner, groups=1, seed=0, **knobs):
    """What each sample weighs times its advantage, (P, G), and the metrics, under noise."""
    generator = torch.Generator().manual_seed(seed)
    sign_B1 = 2.0 * torch.randint(2, (groups * G, 1), generator=generator) - 1
    facts = units(groups * G, group_size=G)
    facts = replace(facts, key=Key(seed, 0, "loss/0"), sample_B=torch.arange(groups * G))
    leaf = torch.zeros(groups * G, 1, dtype=torch.float64, requires_grad=True)
    loss = LOSSES.get("perturbed")(inner=inner, **knobs)
    value, metrics = loss(estimate(leaf), estimate(leaf.detach()), None, sign_B1, facts)
    (grad_B1,) = torch.autograd.grad(value, leaf)
    return -grad_B1.view(groups, G) * groups, {k: v.view(groups, G) for k, v in metrics.items()}


def norms(inner, groups=600, **knobs):
    """Norm of the update of each group."""
    weight_PG, _ = stressed(inner, groups, **knobs)
    generator = torch.Generator().manual_seed(1)
    score = torch.randn(groups, G, WIDTH, generator=generator, dtype=torch.float64)
    score = torch.nn.functional.normalize(score, dim=-1)
    return torch.einsum("pg,pgd->pd", weight_PG, score).norm(dim=1)


@pytest.mark.parametrize(
    ("inner", "noise", "mean", "near"),
    [
        (GRPO, 1.0, 0.40, 0.04),
        (GRPO, 2.0, 2.8, 0.6),
        ({**NARROW, "self_normalise": False}, 2.0, 0.27, 0.04),
        (NARROW, 1.0, 0.24, 0.04),
        (NARROW, 3.0, 0.29, 0.04),
        (CAPPED, 1.0, 0.31, 0.04),
        (CAPPED, 2.0, 0.36, 0.04),
        (CAPPED, 3.0, 0.37, 0.04),
    ],
)
def test_mean_norms_under_independent_noise_are_those_of_a_simulation(inner, noise, mean, near):
    # simulated with 16 fixed scores, ours are drawn: the norm of a plain mean varies by 0.03
    assert norms(inner, noise=noise).mean().item() == pytest.approx(mean, abs=near)


def test_only_the_conditional_clip_has_heavy_tails():
    # the worst of 600 groups at noise 3
    assert norms(GRPO, noise=3.0).max() > 500
    for inner in (NARROW, CAPPED, {**NARROW, "self_normalise": False}):
        assert norms(inner, noise=3.0).max() < 1


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_a_noisy_ratio_has_the_moments_of_a_lognormal(noise):
    # E = e^(s^2/2); P(ratio > c) = P(z > ln c / s)
    _, metrics = stressed(OPEN, groups=1200, noise=noise)
    ratio = metrics["ratio"]
    assert ratio.mean().item() == pytest.approx(math.exp(noise**2 / 2), rel=0.05)
    expected = 0.5 * math.erfc(math.log(2) / noise / math.sqrt(2))
    assert (ratio > 2).double().mean().item() == pytest.approx(expected, abs=0.01)


@few
@given(seed=seeds, shared=st.floats(0, 3))
def test_self_normalising_cancels_noise_that_a_group_shares(seed, shared):
    quiet, _ = stressed(OPEN, seed=seed, noise=0.5)
    noisy, _ = stressed(OPEN, seed=seed, noise=0.5, shared_noise=shared)
    torch.testing.assert_close(noisy, quiet, rtol=1e-6, atol=1e-9)


@few
@given(seed=seeds, shared=st.floats(0, 3))
def test_without_it_shared_noise_scales_the_whole_update(seed, shared):
    averaged = {**OPEN, "self_normalise": False}
    quiet, before = stressed(averaged, seed=seed, noise=0.5)
    noisy, after = stressed(averaged, seed=seed, noise=0.5, shared_noise=shared)
    factor = after["ratio_clipped"].mean() / before["ratio_clipped"].mean()
    torch.testing.assert_close(noisy, factor * quiet, rtol=1e-6, atol=1e-9)


@few
@given(seed=seeds, scale=st.floats(1, 10), factor=st.sampled_from([1e3, 1e5]))
def test_whatever_is_injected_stable_drl_stays_in_the_hull_of_its_samples(seed, scale, factor):
    weight_PG, metrics = stressed(
        CAPPED, seed=seed, noise=3.0, shared_noise=3.0, spike_share=0.05, spike_factor=factor,
        scale=scale,
    )  # fmt: skip
    assert weight_PG.abs().sum().item() == pytest.approx(1, abs=1e-6)
    assert metrics["ratio_clipped"].max() <= 5 + 1e-4
    # the shares c / sum(c) with c <= 5, against the sum of all c
    clipped = metrics["ratio_clipped"]
    torch.testing.assert_close(weight_PG.abs(), clipped / clipped.sum(), rtol=1e-5, atol=1e-9)


def test_a_spike_moves_the_surrogate_by_its_factor_and_stable_drl_by_the_cap():
    # one sample of A = -1 at ratio 1e5: 1e5 / 16 = 6250; under the cap 5 / (5 + 15) = 0.25
    knobs = {"spike_share": 0.04, "spike_factor": 1e5}
    for seed in range(200):
        weight_PG, metrics = stressed(GRPO, seed=seed, **knobs)
        spiked = metrics["ratio"] > 1
        if spiked.sum() == 1 and weight_PG[spiked].item() < -1:
            break
    assert weight_PG[spiked].item() == pytest.approx(-6250, rel=1e-6)
    weight_PG, _ = stressed(CAPPED, seed=seed, **knobs)
    assert weight_PG[spiked].item() == pytest.approx(-0.25, rel=1e-6)
    weight_PG, _ = stressed(OPEN, seed=seed, **knobs)
    assert weight_PG[spiked].item() == pytest.approx(-1e5 / (1e5 + 15), rel=1e-6)


def test_one_noisy_sample_takes_the_sample_size_down():
    # ratios 1 and one of 1e5 in 16: about 1 of 16; under the cap 20^2 / (25 + 15) = 10 of 16
    for inner, size in ((OPEN, 1.0), (CAPPED, 10.0)):
        for seed in range(200):
            _, metrics = stressed(inner, seed=seed, spike_share=0.04, spike_factor=1e5)
            if (metrics["ratio"] > 1).sum() == 1:
                break
        assert G * metrics["ess_share"][0, 0].item() == pytest.approx(size, rel=1e-3)
