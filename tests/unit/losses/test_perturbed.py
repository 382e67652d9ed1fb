"""Perturbed: at rest nothing, else the stated noise on the exponent, keyed by step and sample."""

import math
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.checks._parts import _names
from dllmzoo.errors import RecipeError, UsageError
from dllmzoo.recipe.build import build
from dllmzoo.records import Key, take
from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

Perturbed = LOSSES.get("perturbed")
SURROGATE = {
    "name": "clipped_surrogate", "kl": "none", "normaliser": "unit", "clip_low": None,
    "clip_high": None,
}  # fmt: skip


def run_units(rows, count=1, *, round=0, part=0, pass_=0, first=0, **facts):
    """Units of an optimiser step of a run, samples numbered from `first`."""
    key = Key(5, round, f"loss/{part}", pass_)
    sample_B = torch.arange(first, first + rows)
    return replace(units(rows, count, **facts), key=key, sample_B=sample_B)


def logs(loss, facts, gap=0.0):
    """log_ratio_BU that the inner loss saw; new - old is `gap` nats in each unit."""
    old_BU = torch.full(facts.live_BU.shape, -7.0, dtype=torch.float64)
    new = estimate(old_BU + gap)
    _, metrics = loss(new, estimate(old_BU), estimate(old_BU), torch.ones(old_BU.shape), facts)
    return metrics["log_ratio"]


def stressed(inner=None, **knobs):
    return Perturbed(inner=inner or SURROGATE, **knobs)


@pytest.mark.parametrize("name", ["clipped_surrogate", "stable_drl", "cispo", "dpo"])
def test_at_rest_it_is_the_inner_loss_bit_for_bit_even_outside_a_run(name):
    inner = LOSSES.get(name)()
    facts = units(6, group_size=3, size_BU=torch.full((6, 1), 3.0))
    generator = torch.Generator().manual_seed(0)
    new, old, reference, advantage = (torch.randn(6, 1, generator=generator) for _ in range(4))
    found = []
    for loss in (inner, Perturbed(inner=inner), Perturbed(inner=inner, spike_factor=9.0)):
        leaf = new.clone().requires_grad_()
        value, metrics = loss(estimate(leaf), estimate(old), estimate(reference), advantage, facts)
        value.backward()
        found.append((value.detach(), leaf.grad, metrics))
    for value, grad, metrics in found[1:]:
        assert torch.equal(value, found[0][0]) and torch.equal(grad, found[0][1])
        assert all(torch.equal(metrics[key], each) for key, each in found[0][2].items())


def test_noise_has_the_stated_law_per_sequence():
    facts = run_units(20000)
    log_B1 = logs(stressed(noise=2.0), facts)
    assert log_B1.mean().item() == pytest.approx(0.0, abs=0.05)
    assert log_B1.std().item() == pytest.approx(2.0, rel=0.02)
    # 15.87 % of a normal law lie above one standard deviation
    assert (log_B1 > 2).double().mean().item() == pytest.approx(0.1587, abs=0.01)


def test_shared_noise_is_one_number_a_group():
    log_B1 = logs(stressed(shared_noise=1.0), run_units(3000, group_size=3)).view(1000, 3)
    assert torch.equal(log_B1, log_B1[:, :1].expand(1000, 3))
    assert log_B1[:, 0].std().item() == pytest.approx(1.0, rel=0.1)


def test_spikes_multiply_some_ratios_by_the_factor():
    log_B1 = logs(stressed(spike_share=0.05, spike_factor=1e3), run_units(4000))
    spiked_B1 = log_B1 > 1
    assert spiked_B1.double().mean().item() == pytest.approx(0.05, abs=0.015)
    torch.testing.assert_close(log_B1[spiked_B1], torch.full_like(log_B1[spiked_B1], math.log(1e3)))
    assert not log_B1[~spiked_B1].any()
    assert (logs(stressed(spike_share=1.0, spike_factor=2.0), run_units(50)) > 0.6).all()


def test_scale_multiplies_the_log_ratio_and_all_knobs_add_up():
    facts = run_units(4)
    torch.testing.assert_close(
        logs(stressed(scale=5.0), facts, gap=0.3).flatten(), torch.full((4,), 1.5).double()
    )
    assert not logs(stressed(scale=0.0), facts, gap=0.3).any()
    knobs = {"noise": 1.0, "shared_noise": 0.5, "spike_share": 0.5}
    parts = [logs(stressed(**{name: value}), facts) for name, value in knobs.items()]
    together = logs(stressed(scale=2.0, **knobs), facts, gap=0.3)
    torch.testing.assert_close(together, sum(parts) + 0.6)


def test_every_optimiser_step_draws_anew_and_the_same_one_the_same():
    loss = stressed(noise=1.0, shared_noise=1.0)
    first = logs(loss, run_units(4))
    assert torch.equal(logs(loss, run_units(4)), first)
    for other in ({"round": 1}, {"part": 1}, {"pass_": 1}):
        assert not (logs(loss, run_units(4, **other)) == first).any()


def test_a_sample_has_its_noise_whatever_the_batch_and_the_order():
    loss = stressed(noise=1.0, shared_noise=1.0, spike_share=0.3)
    facts = run_units(12, group_size=3)
    whole = logs(loss, facts)
    rows = torch.tensor([10, 9, 11, 2, 0, 1])
    assert torch.equal(logs(loss, take(facts, rows)), whole[rows])


@pytest.mark.parametrize("inner", ["stable_drl", "clipped_surrogate"])
@pytest.mark.parametrize("length_norm", ["none", "token", "canvas"])
def test_the_exponent_gets_the_noise_whatever_the_inner_loss_divides_by(inner, length_norm):
    size_BU = torch.tensor([[2.0], [5.0], [16.0]])
    plain = logs(stressed(noise=1.0), run_units(3))
    part = {"name": inner, "length_norm": length_norm}
    found = logs(stressed(part, noise=1.0), run_units(3, size_BU=size_BU, canvas=16))
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize("length_norm", ["none", "token", "canvas"])
def test_units_of_a_sequence_share_its_noise_by_their_tokens(length_norm):
    # sizes 1, 3 and a dead unit of a canvas of 8: a quarter, three quarters, nothing
    facts = run_units(
        2, 3, size_BU=torch.tensor([[1.0, 3.0, 4.0]] * 2), canvas=8,
        live_BU=torch.tensor([[True, True, False]] * 2), length_B=torch.tensor([8, 8]),
    )  # fmt: skip
    plain_B1 = logs(stressed(noise=1.0), run_units(2))
    part = {**SURROGATE, "length_norm": length_norm}
    found = logs(stressed(part, noise=1.0), facts)
    torch.testing.assert_close(found, plain_B1 * torch.tensor([[0.25, 0.75, 0.0]]))


@pytest.mark.parametrize("length_norm", ["none", "token", "canvas"])
def test_a_ratio_of_the_sequence_gets_all_of_it(length_norm):
    facts = run_units(2, 4, canvas=9)
    part = {**SURROGATE, "length_norm": length_norm, "ratio_level": "sequence"}
    found = logs(stressed(part, noise=1.0), facts)
    torch.testing.assert_close(found, logs(stressed(noise=1.0), run_units(2)).expand(2, 4))


def test_views_of_the_whole_answer_get_all_of_it_each():
    facts = run_units(
        2, 3, size_BU=torch.full((2, 3), 4.0), length_B=torch.tensor([4, 4]), canvas=6
    )
    found = logs(stressed("bgpo", noise=1.0), facts)
    torch.testing.assert_close(found, logs(stressed(noise=1.0), run_units(2)).expand(2, 3))


def test_the_gradient_is_that_of_the_inner_loss_at_the_false_ratio():
    # A = 1, no clip: -ratio, and nothing flows through the noise
    facts = run_units(3)
    leaf = torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)
    old = torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)
    loss = stressed(noise=1.0, scale=2.0)
    value, metrics = loss(estimate(leaf), estimate(old), None, torch.ones(3, 1), facts)
    value.backward()
    torch.testing.assert_close(leaf.grad, -metrics["ratio"] / 3)
    assert old.grad is None


def test_it_is_what_its_inner_loss_is():
    assert Perturbed(inner="stable_drl").units == {"sequence"}
    assert Perturbed(inner="policy_gradient").needs_old is False
    assert Perturbed(inner="dpo").needs_reference
    assert Perturbed(inner={"name": "clipped_surrogate", "kl": "exact"}).needs_exact_kl
    assert Perturbed(inner="stable_drl").bounded_weight == 1.0
    assert Perturbed(inner="sibling_imitation").needs_branches
    assert not Perturbed().needs_branches


def test_a_loss_without_ratios_is_left_as_it_is():
    new = estimate(torch.tensor([[-2.0]]))
    for loss in (LOSSES.get("policy_gradient")(), stressed("policy_gradient", noise=9.0)):
        value, _ = loss(new, None, None, torch.ones(1, 1), units(1))
        assert value.item() == 2.0


def test_the_class_can_be_asked_for_its_units():
    assert Perturbed.units == {"slot", "step", "sequence", "view"}
    assert "perturbed" in _names(LOSSES, lambda cls: "step" in cls.units)


def test_units_without_a_key_or_sample_numbers_are_refused():
    for facts in (units(2), replace(units(2), key=Key(0, 0, "loss/0"))):
        with pytest.raises(UsageError, match="key and sample numbers"):
            logs(stressed(noise=1.0), facts)


def test_a_recipe_names_the_inner_loss_and_its_mistakes_are_found():
    loss = build(
        "loss", {"name": "perturbed", "inner": {"name": "snis", "clip": False}, "noise": 1}
    )
    assert loss.inner == LOSSES.get("stable_drl")(clip=False)
    with pytest.raises(RecipeError, match="clip_hgh"):
        build("loss", {"name": "perturbed", "inner": {"name": "snis", "clip_hgh": 1}})


@pytest.mark.parametrize(
    "wrong", [{"noise": -1.0}, {"spike_share": 1.5}, {"spike_factor": 0.0}, {"scale": -1.0}]
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        Perturbed(**wrong)
