"""DPO: pairs inside a group, by hand; ties, length norms, smoothed labels, metrics."""

import math

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

Dpo = LOSSES.get("dpo")


def of_gains(loss, gain, advantage, **facts):
    """Value, gradient at the log-probs and metrics; `gain` is new - reference in total nats."""
    new = torch.tensor(gain, dtype=torch.float64).unsqueeze(1).requires_grad_()
    value, metrics = loss(
        estimate(new), None, estimate(torch.zeros_like(new)),
        torch.tensor(advantage).unsqueeze(1), units(len(gain), **facts),
    )  # fmt: skip
    value.backward()
    return value.item(), new.grad.flatten().tolist(), metrics


def nll(margin):
    return math.log1p(math.exp(-margin))


def test_paper_name_is_an_alias():
    assert LOSSES.get("vrpo") is Dpo


def test_needs_the_reference_and_no_old_policy():
    loss = Dpo()
    assert loss.needs_reference and not loss.needs_old and not loss.needs_exact_kl
    assert loss.units == {"sequence"}
    with pytest.raises(UsageError, match="reference policy"):
        loss(estimate([0.0, 0.0]), None, None, torch.tensor([[1.0], [-1.0]]), units(2))


def test_a_pair_by_hand():
    # beta 0.5, gains 3 and 1: margin 1, -log sigmoid(1) = 0.313262
    # slope 0.5 * sigmoid(-1) = 0.134471
    value, grad, metrics = of_gains(Dpo(beta=0.5), [3.0, 1.0], [1.0, -1.0])
    assert value == pytest.approx(0.313262, abs=1e-6)
    assert grad == pytest.approx([-0.134471, 0.134471], abs=1e-6)
    assert metrics["margin"].flatten().tolist() == pytest.approx([1.0, 1.0])
    assert metrics["accuracy"].flatten().tolist() == [1.0, 1.0]


def test_the_loser_may_come_first_and_only_signs_count():
    value, grad, metrics = of_gains(Dpo(beta=0.5), [1.0, 3.0], [-7.0, 0.1])
    assert value == pytest.approx(nll(1.0))
    assert grad == pytest.approx([0.134471, -0.134471], abs=1e-6)
    assert metrics["accuracy"].flatten().tolist() == [1.0, 1.0]


def test_all_pairs_of_a_group_are_averaged_and_ties_are_out():
    # winners 2, 0; loser 1; the last has A = 0.  margins 1 and -1: (0.313262 + 1.313262) / 2
    value, grad, metrics = of_gains(Dpo(beta=1.0), [2.0, 0.0, 1.0, 99.0], [1.0, 2.0, -1.0, 0.0])
    assert value == pytest.approx((nll(1.0) + nll(-1.0)) / 2)
    # slopes sigmoid(-1) / 2 = 0.134471 and sigmoid(1) / 2 = 0.365529
    assert grad == pytest.approx([-0.134471, -0.365529, 0.5, 0.0], abs=1e-6)
    assert metrics["margin"].flatten().tolist() == pytest.approx([0.0] * 4)
    assert metrics["accuracy"].flatten().tolist() == [0.5] * 4


def test_groups_are_averaged_and_one_without_a_pair_counts_as_nothing():
    # group 0: a pair of margin 1; group 1: two winners, no loser
    value, grad, metrics = of_gains(
        Dpo(beta=1.0), [1.0, 0.0, 5.0, 6.0], [1.0, -1.0, 1.0, 1.0], group_size=2
    )
    assert value == pytest.approx(nll(1.0) / 2)
    assert grad[2:] == [0.0, 0.0]
    assert metrics["margin"].flatten().tolist() == pytest.approx([1.0, 1.0, 0.0, 0.0])
    assert metrics["accuracy"].flatten().tolist() == [1.0, 1.0, 0.5, 0.5]


def test_pairs_never_cross_groups():
    value, grad, _ = of_gains(Dpo(), [1.0, 2.0, 3.0, 4.0], [1.0, 1.0, -1.0, -1.0], group_size=2)
    assert value == 0.0 and grad == [0.0] * 4


def test_length_norms_divide_the_log_probs():
    # 6 and 2 nats over 2 tokens, N = 4: margins 4, 2, 1 at beta 1
    size = torch.tensor([[2.0], [2.0]])
    for length_norm, margin in (("none", 4.0), ("token", 2.0), ("canvas", 1.0)):
        loss = Dpo(beta=1.0, length_norm=length_norm)
        value, _, _ = of_gains(loss, [6.0, 2.0], [1.0, -1.0], size_BU=size, canvas=4)
        assert value == pytest.approx(nll(margin))


def test_smoothed_labels_mix_both_orders():
    # margin 1, share 0.1: 0.9 * 0.313262 + 0.1 * 1.313262 = 0.413262
    value, _, _ = of_gains(Dpo(beta=1.0, label_smoothing=0.1), [1.0, 0.0], [1.0, -1.0])
    assert value == pytest.approx(0.413262, abs=1e-6)
    # the pull turns round where sigmoid(margin) passes 0.9
    for margin, sign in ((2.0, -1), (2.4, 1)):
        _, grad, _ = of_gains(Dpo(beta=1.0, label_smoothing=0.1), [margin, 0.0], [1.0, -1.0])
        assert math.copysign(1, grad[0]) == sign


def test_at_the_reference_nothing_is_preferred_yet():
    value, grad, metrics = of_gains(Dpo(beta=0.2), [0.0, 0.0], [1.0, -1.0])
    assert value == pytest.approx(math.log(2))
    assert grad == pytest.approx([-0.1, 0.1])
    assert metrics["accuracy"].flatten().tolist() == [0.5, 0.5]


def test_dead_rows_are_in_no_pair():
    live = torch.tensor([[True], [True], [False]])
    value, grad, _ = of_gains(Dpo(beta=1.0), [1.0, 0.0, math.nan], [1.0, -1.0, -1.0], live_BU=live)
    assert value == pytest.approx(nll(1.0))
    assert grad[2] == 0.0


@pytest.mark.parametrize("wrong", [{"beta": 0.0}, {"label_smoothing": 0.5}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        Dpo(**wrong)
