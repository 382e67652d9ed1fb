"""Clipped surrogate: hand-computed values, the four corners, KL, options and dead units."""

import math

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.records import Estimate
from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

Clipped = LOSSES.get("clipped_surrogate")


def plain(**options):
    """Mean over units, no KL."""
    return Clipped(**({"kl": "none", "normaliser": "unit"} | options))


def of_ratios(loss, ratio, advantage, **facts):
    """Value, gradient at the log-probs and metrics for given ratios, (B, U) lists."""
    new = torch.tensor(ratio).log().requires_grad_()
    advantage_BU = torch.tensor(advantage)
    value, metrics = loss(
        estimate(new),
        estimate(torch.zeros_like(new)),
        estimate(torch.zeros_like(new)),
        advantage_BU,
        units(*new.shape, **facts),
    )
    value.backward()
    return value.item(), new.grad, metrics


def test_paper_names_are_aliases():
    assert LOSSES.get("ppo") is LOSSES.get("grpo") is Clipped


def test_clips_only_what_helps():
    # ratios 2 and 0.5, kept in [0.8, 1.5]
    # A = +1: min(2, 1.5) = 1.5    A = -1: min(-0.5, -0.8) = -0.8    loss = -(1.5 - 0.8) / 2
    value, grad, metrics = of_ratios(plain(), [[2.0], [0.5]], [[1.0], [-1.0]])
    assert value == pytest.approx(-0.35)
    assert not grad.any()
    assert metrics["clip_fraction"].tolist() == [[1.0], [1.0]]
    assert metrics["clip_high_fraction"].tolist() == [[1.0], [0.0]]
    assert metrics["clip_low_fraction"].tolist() == [[0.0], [1.0]]
    assert metrics["ratio"].flatten().tolist() == pytest.approx([2.0, 0.5])


def test_two_of_the_four_corners_keep_their_gradient():
    # A = +1, ratio 0.5: gradient -0.5 / 2      A = -1, ratio 1e5: gradient +1e5 / 2, unbounded
    _, grad, metrics = of_ratios(plain(), [[0.5], [1e5]], [[1.0], [-1.0]])
    assert grad.flatten().tolist() == pytest.approx([-0.25, 5e4])
    assert not metrics["clip_fraction"].any()


def test_ratio_cap_closes_the_open_corner():
    # A = -1: min(-3, clip(3) * -1 = -1.5) = -3, constant
    loss = plain(ratio_cap=3.0)
    value, grad, _ = of_ratios(loss, [[1e5]], [[-1.0]])
    assert value == pytest.approx(3.0)
    assert not grad.any()
    assert loss.bounded_weight == 3.0
    assert plain().bounded_weight is None


def test_log_ratio_clamp_comes_first():
    # log-ratio ln 8 = 2.08 is kept at 1: A = -1 gives min(-e, -1.5) = -e
    value, grad, _ = of_ratios(plain(log_ratio_clamp=1.0), [[8.0]], [[-1.0]])
    assert value == pytest.approx(math.e)
    assert not grad.any()
    assert plain(log_ratio_clamp=1.0).bounded_weight == pytest.approx(math.e)


def test_the_ratio_in_use_is_reported_and_how_evenly_it_spreads():
    # A = 1: 2 is held at 1.5, 0.5 is not held; A = -1: 4 is in the open corner, 0.5 held at 0.8
    # used: 1.5, 0.5, 4, 0.8; sum 6.8, squares 2.25 + 0.25 + 16 + 0.64 = 19.14
    _, _, metrics = of_ratios(plain(), [[2.0], [0.5], [4.0], [0.5]], [[1.0], [1.0], [-1.0], [-1.0]])
    assert metrics["ratio_clipped"].flatten().tolist() == pytest.approx([1.5, 0.5, 4.0, 0.8])
    assert metrics["ess_share"].flatten().tolist() == pytest.approx([6.8**2 / 19.14 / 4] * 4)


def test_the_ratio_in_use_knows_the_cap_and_the_clamp():
    _, _, metrics = of_ratios(plain(ratio_cap=3.0), [[100.0]], [[-1.0]])
    assert metrics["ratio_clipped"].item() == pytest.approx(3.0)
    _, _, metrics = of_ratios(plain(log_ratio_clamp=1.0), [[100.0]], [[-1.0]])
    assert metrics["ratio_clipped"].item() == pytest.approx(math.e)


def test_groups_have_effective_sample_sizes_of_their_own():
    # ratios 1, 1 and 0, 1: 2 of 2, 1 of 2
    loss = plain(clip_low=None, clip_high=None)
    _, _, metrics = of_ratios(loss, [[1.0], [1.0], [1e-30], [1.0]], [[1.0]] * 4, group_size=2)
    assert metrics["ess_share"].flatten().tolist() == pytest.approx([1.0, 1.0, 0.5, 0.5])


def test_the_length_unbiased_form_is_a_sum_over_tokens_of_the_sequence_ratio():
    # two sequences of 2 and 1 live tokens, log-ratios ln 4, 0 and ln 3: ratios 2, 2 and 3
    # tokens times ratio times A: 2 * 2 * 1 + 1 * 3 * -1 = 1, over 2 sequences, over N = 5
    loss = plain(
        ratio_level="sequence", length_norm="token", normaliser="fixed", clip_low=None,
        clip_high=None,
    )  # fmt: skip
    live = torch.tensor([[True, True], [True, False]])
    value, _, _ = of_ratios(
        loss, [[4.0, 1.0], [3.0, 1.0]], [[1.0, 1.0], [-1.0, -1.0]], live_BU=live, canvas=5
    )
    assert value * 5 == pytest.approx(-1 / 2)


def test_a_sequence_unit_and_slots_on_sequence_level_are_the_same_gspo():
    # log-ratios ln 4 and 0 of two tokens, or ln 4 of a unit of two: ratio 2, mean over sequences
    slots, _, _ = of_ratios(
        plain(ratio_level="sequence", length_norm="token", normaliser="sequence", clip_high=None),
        [[4.0, 1.0]], [[0.7, 0.7]],
    )  # fmt: skip
    whole, _, _ = of_ratios(
        plain(length_norm="token", normaliser="sequence", clip_high=None), [[4.0]], [[0.7]],
        size_BU=torch.tensor([[2.0]]),
    )  # fmt: skip
    assert slots == pytest.approx(whole) == pytest.approx(-1.4)


def test_null_bounds_never_clip():
    # -(8 * 1 + 0.01 * -1) / 2 = -3.995
    value, _, metrics = of_ratios(
        plain(clip_low=None, clip_high=None), [[8.0], [0.01]], [[1.0], [-1.0]]
    )
    assert value == pytest.approx(-3.995)
    assert not metrics["clip_fraction"].any()


def test_a_lower_distance_of_one_or_more_never_binds():
    value, _, _ = of_ratios(plain(clip_low=5.0), [[0.01]], [[-1.0]])
    assert value == pytest.approx(0.01)


def test_on_policy_gradient_is_reinforce():
    logprob_BU = torch.tensor([[-1.0], [-2.0]], requires_grad=True)
    advantage_BU = torch.tensor([[0.3], [-0.7]])
    loss, _ = plain()(
        estimate(logprob_BU), estimate(logprob_BU.detach()), None, advantage_BU, units(2)
    )
    loss.backward()
    torch.testing.assert_close(logprob_BU.grad, -advantage_BU / 2)


def test_token_length_norm_divides_the_log_ratio():
    # total log-ratio ln 4 over 2 tokens: ratio 2; gradient of the total is -2 * 1 / 2
    size = torch.tensor([[2.0]])
    value, grad, _ = of_ratios(
        plain(length_norm="token", clip_high=None), [[4.0]], [[1.0]], size_BU=size
    )
    assert value == pytest.approx(-2.0)
    assert grad.item() == pytest.approx(-1.0)


def test_canvas_length_norm_divides_by_all_answer_slots():
    # ln 16 / 4 = ln 2
    value, _, _ = of_ratios(
        plain(length_norm="canvas", clip_high=None), [[16.0]], [[1.0]], canvas=4
    )
    assert value == pytest.approx(-2.0)


def test_sequence_level_gives_all_units_one_ratio():
    # log-ratios ln 4 and 0: their mean over 2 tokens is ln 2, so both terms are -2
    value, grad, metrics = of_ratios(
        plain(ratio_level="sequence", length_norm="token", clip_high=None),
        [[4.0, 1.0]],
        [[1.0, 1.0]],
    )
    assert value == pytest.approx(-2.0)
    assert grad.tolist() == [pytest.approx([-1.0, -1.0])]
    assert metrics["ratio"].flatten().tolist() == pytest.approx([2.0, 2.0])


def test_sequence_level_without_length_norm_is_the_product_of_ratios():
    # 4 * 3 = 12
    value, _, _ = of_ratios(
        plain(ratio_level="sequence", clip_high=None), [[4.0, 3.0]], [[1.0, 1.0]]
    )
    assert value == pytest.approx(-12.0)


def test_sequence_level_leaves_dead_units_out():
    # the dead unit's log-ratio does not enter: ratio 4 over 1 token
    value, _, _ = of_ratios(
        plain(ratio_level="sequence", length_norm="token", clip_high=None),
        [[4.0, 100.0]],
        [[1.0, 1.0]],
        live_BU=torch.tensor([[True, False]]),
    )
    assert value == pytest.approx(-4.0)


def test_k3_is_added_with_its_weight():
    # d = reference - new = -ln 2: exp(d) - d - 1 = 0.5 + 0.693147 - 1 = 0.193147
    # surrogate at ratio 2, A = 1: -1.5      loss = -1.5 + 0.1 * 0.193147 = -1.480685
    loss = Clipped(kl="k3", kl_coef=0.1, normaliser="unit")
    value, grad, metrics = of_ratios(loss, [[2.0]], [[1.0]])
    assert value == pytest.approx(-1.480685, abs=1e-6)
    assert metrics["kl"].item() == pytest.approx(0.193147, abs=1e-6)
    assert grad.item() == pytest.approx(0.1 * (1 - 0.5))  # d/dnew of k3 = 1 - exp(d)


@pytest.mark.parametrize(("kind", "value"), [("k1", 0.693147), ("k2", 0.240227), ("k3", 0.193147)])
def test_kl_estimators(kind, value):
    # new - reference = ln 2: k1 = ln 2, k2 = (ln 2)^2 / 2, k3 as above
    loss = Clipped(kl=kind, kl_coef=1.0, normaliser="unit")
    total, _, _ = of_ratios(loss, [[2.0]], [[0.0]])
    assert total == pytest.approx(value, abs=1e-6)


def test_score_gradient_adds_the_value_times_the_score():
    # k1: 1 + ln 2; k2: ln 2 + (ln 2)^2 / 2; k3: 0.5 + 0.193147
    for kind, expected in (("k1", 1.693147), ("k2", 0.933374), ("k3", 0.693147)):
        loss = Clipped(kl=kind, kl_coef=1.0, kl_gradient="score", normaliser="unit")
        _, grad, _ = of_ratios(loss, [[2.0]], [[0.0]])
        assert grad.item() == pytest.approx(expected, abs=1e-6)


def test_kl_to_the_old_policy_needs_no_reference():
    loss = Clipped(kl="k2", kl_coef=1.0, kl_anchor="old", normaliser="unit")
    assert loss.needs_old and not loss.needs_reference
    new, old = estimate([3.0]), estimate([1.0])
    value, _ = loss(new, old, None, torch.zeros(1, 1), units(1))
    assert value.item() == pytest.approx(2.0)  # (3 - 1)^2 / 2


def test_kl_has_a_normaliser_and_a_length_norm_of_its_own():
    # total gap 6 over 3 tokens, N = 4, one sequence
    # k2 of the total: 18, divided by N: 4.5       k2 per token: (6/3)^2 / 2 = 2
    facts = units(1, size_BU=torch.tensor([[3.0]]), canvas=4)
    new, zero, no_credit = estimate([6.0]), estimate([0.0]), torch.zeros(1, 1)
    common = {"kl": "k2", "kl_coef": 1.0, "length_norm": "token", "normaliser": "unit"}
    espo = Clipped(**common, kl_length_norm="none", kl_normaliser="fixed")
    assert espo(new, zero, zero, no_credit, facts)[0].item() == pytest.approx(4.5)
    assert Clipped(**common)(new, zero, zero, no_credit, facts)[0].item() == pytest.approx(2.0)


def test_exact_kl_is_read_from_the_estimate():
    loss = Clipped(kl="exact", kl_coef=0.5, normaliser="unit")
    assert loss.needs_exact_kl and not loss.needs_reference
    exact = torch.tensor([[0.4]], requires_grad=True)
    value, metrics = loss(
        estimate(torch.zeros(1, 1), exact), estimate([0.0]), None, torch.zeros(1, 1), units(1)
    )
    value.backward()
    assert value.item() == pytest.approx(0.2)
    assert exact.grad.item() == pytest.approx(0.5)
    assert metrics["kl"].item() == pytest.approx(0.4)


def test_exact_kl_that_was_not_scored_is_refused():
    with pytest.raises(UsageError, match="was not scored"):
        Clipped(kl="exact")(estimate([0.0]), estimate([0.0]), None, torch.zeros(1, 1), units(1))


def test_exact_kl_to_the_old_policy_is_refused():
    with pytest.raises(ValidationError, match="kl_anchor: reference"):
        Clipped(kl="exact", kl_anchor="old")


def test_a_missing_reference_is_refused():
    with pytest.raises(UsageError, match="log-probs of the reference policy"):
        Clipped()(estimate([0.0]), estimate([0.0]), None, torch.zeros(1, 1), units(1))


def test_zero_kl_weight_drops_the_reference():
    loss = Clipped(kl="k3", kl_coef=0.0)
    assert not loss.needs_reference
    _, metrics = loss(estimate([0.0]), estimate([0.0]), None, torch.zeros(1, 1), units(1))
    assert "kl" not in metrics


def test_no_credit_no_gradient():
    _, grad, _ = of_ratios(plain(), [[3.0], [1e30], [1e-30]], [[0.0], [0.0], [0.0]])
    assert not grad.any()


def test_dead_units_pass_nothing_on_even_if_they_are_nan():
    nan = math.nan
    new = torch.tensor([[0.0, nan]], requires_grad=True)
    live = torch.tensor([[True, False]])
    loss = Clipped(kl="k3", kl_coef=1.0, kl_gradient="score", normaliser="unit")
    value, _ = loss(
        estimate(new),
        estimate(torch.tensor([[0.0, nan]])),
        estimate(torch.tensor([[0.0, nan]])),
        torch.tensor([[1.0, nan]]),
        units(1, 2, live_BU=live),
    )
    value.backward()
    assert value.item() == pytest.approx(-1.0)
    assert new.grad.tolist() == [[-1.0, 0.0]]


@pytest.mark.parametrize("gap", [100.0, 1e4, -1e4])
def test_extreme_log_ratios_stay_finite_and_keep_pulling(gap):
    new = torch.tensor([[gap]], requires_grad=True)
    loss = Clipped(kl="k3", kl_coef=0.04, normaliser="unit")
    value, metrics = loss(
        estimate(new), estimate([0.0]), estimate([0.0]), torch.tensor([[-1.0]]), units(1)
    )
    value.backward()
    assert value.isfinite() and new.grad.isfinite().all()
    assert all(metric.isfinite().all() for metric in metrics.values())
    assert (new.grad.sign() == math.copysign(1, gap)).all()  # towards the old policy


def test_only_the_new_estimate_carries_gradient():
    new, old, advantage = (torch.zeros(1, 1, requires_grad=True) for _ in range(3))
    loss = Clipped(kl="k3", kl_coef=1.0)
    value, metrics = loss(estimate(new), estimate(old), estimate(old), advantage + 1, units(1))
    value.backward()
    assert new.grad is not None and old.grad is None and advantage.grad is None
    assert not any(metric.requires_grad for metric in metrics.values())


def test_ratio_reads_the_ratio_statistic():
    new = Estimate(torch.tensor([[9.0]]), torch.tensor([[math.log(2.0)]]))
    value, _ = plain(clip_high=None)(new, estimate([0.0]), None, torch.ones(1, 1), units(1))
    assert value.item() == pytest.approx(-2.0)


@pytest.mark.parametrize(
    "wrong", [{"clip_low": -0.1}, {"ratio_cap": 1.0}, {"kl": "k4"}, {"kl_coef": -1.0}]
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        Clipped(**wrong)
