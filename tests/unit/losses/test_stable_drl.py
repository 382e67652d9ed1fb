"""StableDRL: weights by hand, the two switches, length norms, dead rows and extremes."""

import math

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.records import Estimate
from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

StableDrl = LOSSES.get("stable_drl")


def run(loss, ratio, advantage=None, score=None, **facts):
    """Value, gradient at the per-row scores and metrics; one sequence unit of 1 token a row."""
    B = len(ratio)
    score_B1 = torch.tensor(score or [-1.0] * B).unsqueeze(1).requires_grad_()
    log_B1 = torch.tensor(ratio, dtype=torch.float64).log().float().unsqueeze(1)
    advantage_B1 = torch.tensor(advantage or [1.0] * B).unsqueeze(1)
    value, metrics = loss(
        Estimate(score_B1, log_B1), estimate([0.0] * B), None, advantage_B1, units(B, **facts)
    )
    value.backward()
    return value.item(), score_B1.grad.flatten(), metrics


def test_paper_name_is_an_alias():
    assert LOSSES.get("snis") is StableDrl


def test_needs_the_old_policy_only():
    loss = StableDrl()
    assert loss.needs_old and not loss.needs_reference and not loss.needs_exact_kl
    assert loss.units == {"sequence"}


def test_weights_are_clipped_ratios_over_their_sum():
    # eps 5: bounds -4 (never binds) and 6; ratios 1, 9 -> 6, 1: weights 1/8, 6/8, 1/8
    # loss = -(1/8 * 1 * -2 + 6/8 * -1 * -1 + 1/8 * 0.5 * -4) = -(-0.25 + 0.75 - 0.25) = -0.25
    value, grad, metrics = run(StableDrl(), [1.0, 9.0, 1.0], [1.0, -1.0, 0.5], [-2.0, -1.0, -4.0])
    assert metrics["weight"].flatten().tolist() == pytest.approx([0.125, 0.75, 0.125])
    assert value == pytest.approx(-0.25)
    assert grad.tolist() == pytest.approx([-0.125, 0.75, -0.0625])
    assert metrics["clip_fraction"].flatten().tolist() == [0.0, 1.0, 0.0]
    assert metrics["clip_high_fraction"].flatten().tolist() == [0.0, 1.0, 0.0]
    assert metrics["ratio"].flatten().tolist() == pytest.approx([1.0, 9.0, 1.0], rel=1e-5)
    assert metrics["ratio_clipped"].flatten().tolist() == pytest.approx([1.0, 6.0, 1.0], rel=1e-5)
    # effective sample size 1 / (2/64 + 36/64) = 64/38, over 3 samples
    assert metrics["ess_share"].flatten().tolist() == pytest.approx([64 / 114] * 3)


def test_the_clip_acts_for_either_sign_of_the_advantage():
    for advantage in (1.0, -1.0):
        _, grad, metrics = run(StableDrl(clip_low=0.5, clip_high=1.0), [0.1, 7.0], [advantage] * 2)
        # 0.5 and 2: weights 0.2 and 0.8; clipped samples keep their gradient
        assert metrics["weight"].flatten().tolist() == pytest.approx([0.2, 0.8])
        assert grad.tolist() == pytest.approx([-0.2 * advantage, -0.8 * advantage])
        assert metrics["clip_low_fraction"].flatten().tolist() == [1.0, 0.0]


def test_released_cap_of_five_is_null_and_four():
    _, _, metrics = run(StableDrl(clip_low=None, clip_high=4.0), [1e-6, 100.0, 5.0])
    # 1e-6, 5, 5
    assert metrics["weight"].flatten().tolist() == pytest.approx([1e-7, 0.5, 0.5], rel=1e-4)


def test_null_bounds_and_no_clip_are_alike():
    weights = [
        run(StableDrl(**options), [1.0, 1e3])[2]["weight"]
        for options in ({"clip_low": None, "clip_high": None}, {"clip": False})
    ]
    assert torch.equal(*weights)
    assert weights[0].flatten().tolist() == pytest.approx([1 / 1001, 1000 / 1001])


def test_without_self_normalisation_weights_are_clipped_ratios_over_the_group_size():
    # ratios 1, 9 -> 6 over G = 2
    loss = StableDrl(self_normalise=False)
    _, _, metrics = run(loss, [1.0, 9.0])
    assert metrics["weight"].flatten().tolist() == pytest.approx([0.5, 3.0])
    assert loss.bounded_weight == 6.0
    assert StableDrl().bounded_weight == 1.0
    assert StableDrl(self_normalise=False, clip=False).bounded_weight is None
    assert StableDrl(self_normalise=False, clip_high=None).bounded_weight is None


def test_clip_over_group_size_is_the_mean_ratio_times_the_self_normalised_gradient():
    ratio, advantage = [0.5, 2.0, 9.0, 1.0], [1.0, -1.0, 0.3, -0.2]
    _, averaged, metrics = run(StableDrl(self_normalise=False), ratio, advantage)
    _, normalised, _ = run(StableDrl(), ratio, advantage)
    torch.testing.assert_close(averaged, metrics["ratio_clipped"].mean() * normalised)


def test_groups_are_normalised_alone_and_averaged():
    # groups (1, 3) and (1, 1): weights 1/4, 3/4 and 1/2, 1/2; halved by the mean over 2 groups
    _, grad, metrics = run(StableDrl(), [1.0, 3.0, 1.0, 1.0], group_size=2)
    assert metrics["weight"].flatten().tolist() == pytest.approx([0.25, 0.75, 0.5, 0.5])
    assert grad.tolist() == pytest.approx([-0.125, -0.375, -0.25, -0.25])


def test_the_log_ratio_is_per_token_unless_told_otherwise():
    # total log-ratio ln 16 over 2 tokens, N = 4: ratio 4, 16, 2; the score is per token in all
    size = torch.tensor([[2.0], [2.0]])
    for length_norm, ratio in (("token", 4.0), ("none", 16.0), ("canvas", 2.0)):
        loss = StableDrl(clip=False, length_norm=length_norm)
        _, grad, metrics = run(loss, [16.0, 1.0], size_BU=size, canvas=4)
        weight = ratio / (ratio + 1)
        assert metrics["weight"][0].item() == pytest.approx(weight, rel=1e-5)
        assert grad[0].item() == pytest.approx(-weight / 2, rel=1e-5)


def test_no_gradient_flows_through_the_weights():
    ratio_B1 = torch.tensor([[0.3], [-0.2]], requires_grad=True)
    score_B1 = torch.tensor([[-1.0], [-2.0]], requires_grad=True)
    value, _ = StableDrl()(
        Estimate(score_B1, ratio_B1), estimate([0.0, 0.0]), None, torch.ones(2, 1), units(2)
    )
    value.backward()
    assert ratio_B1.grad is None and score_B1.grad is not None


def test_dead_rows_are_out_of_the_softmax():
    # live ratios 1 and 3; the dead row's ratio of 1000 does not enter, nor does its NaN score
    live = torch.tensor([[True], [False], [True]])
    _, grad, metrics = run(
        StableDrl(), [1.0, 1000.0, 3.0], score=[-1.0, math.nan, -1.0], live_BU=live
    )
    assert metrics["weight"].flatten().tolist() == pytest.approx([0.25, 0.0, 0.75])
    assert grad.tolist() == pytest.approx([-0.25, 0.0, -0.75])


@pytest.mark.parametrize("self_normalise", [True, False])
def test_a_wholly_dead_group_is_nothing(self_normalise):
    live = torch.tensor([[True], [True], [False], [False]])
    value, grad, metrics = run(
        StableDrl(self_normalise=self_normalise), [1.0] * 4, group_size=2, live_BU=live
    )
    assert math.isfinite(value)
    assert grad[2:].tolist() == [0.0, 0.0]
    assert all(metric.isfinite().all() for metric in metrics.values())


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("self_normalise", [True, False])
def test_extreme_log_ratios_stay_finite(clip, self_normalise):
    log_B1 = torch.tensor([[1e4], [-1e4], [0.0], [9e3]])
    value, metrics = StableDrl(clip=clip, self_normalise=self_normalise)(
        Estimate(torch.full((4, 1), -1.0), log_B1), estimate([0.0] * 4), None, torch.ones(4, 1),
        units(4),
    )  # fmt: skip
    assert value.isfinite()
    assert all(metric.isfinite().all() for metric in metrics.values())


def test_half_precision_log_ratios_are_lifted():
    log_B1 = torch.tensor([[0.5], [-0.25]], dtype=torch.bfloat16)
    _, metrics = StableDrl()(
        Estimate(torch.zeros(2, 1), log_B1), estimate(torch.zeros(2, 1, dtype=torch.bfloat16)),
        None, torch.ones(2, 1), units(2),
    )  # fmt: skip
    assert metrics["weight"].dtype == torch.float32
    assert metrics["weight"].sum().item() == pytest.approx(1.0, abs=1e-6)


def test_one_outlier_of_sixteen_moves_grpo_by_6250_and_this_loss_by_at_most_1():
    # A = -1, ratio 1e5, G = 16: the clipped surrogate has gradient 1e5 / 16 = 6250
    ratio, advantage = [1e5] + [1.0] * 15, [-1.0] + [0.0] * 15
    _, grad, _ = run(StableDrl(), ratio, advantage)
    assert 0 < grad[0].item() <= 1
    new = torch.tensor(ratio).log().unsqueeze(1).requires_grad_()
    surrogate = LOSSES.get("clipped_surrogate")(kl="none", normaliser="unit")
    credit = torch.tensor(advantage).unsqueeze(1)
    value, _ = surrogate(estimate(new), estimate([0.0] * 16), None, credit, units(16))
    value.backward()
    assert new.grad[0].item() == pytest.approx(6250, rel=1e-4)


def test_effective_sample_size_of_a_narrow_clip():
    # G = 16 in [.8, 1.2], the worst split: ESS >= 4 * 16 * .96 / 4 = 15.36
    _, _, metrics = run(StableDrl(clip_low=0.2, clip_high=0.2), [1e-9] * 10 + [1e9] * 6)
    assert 16 * metrics["ess_share"][0].item() >= 15.36 - 1e-4


def test_only_the_group_normaliser_exists():
    with pytest.raises(ValidationError):
        StableDrl(normaliser="token")
