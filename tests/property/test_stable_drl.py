"""The twelve properties of self-normalised, clipped importance weights (arXiv:2603.06743)."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from dllmzoo.records import Estimate
from dllmzoo.zoo import LOSSES
from tests.strategies import cases, estimate, units

StableDrl = LOSSES.get("stable_drl")
WIDTH = 20

bounds = st.one_of(st.none(), st.floats(0, 8))
few = settings(max_examples=40)
log_ratios = st.one_of(
    st.floats(-1e4, 1e4), st.floats(-3, 3), st.sampled_from([0.0, 1e4, -1e4, 11.5])
)


@dataclass
class Group:
    """One group: log-ratios per token x, advantages, token counts, and score directions s."""

    x_B: Tensor
    advantage_B: Tensor
    size_B: Tensor
    direction_BD: Tensor

    @property
    def update_BD(self) -> Tensor:
        """h_i = A_i s_i, the update each sample alone would make."""
        return self.advantage_B.unsqueeze(1) * self.direction_BD

    def take(self, rows) -> "Group":
        return Group(*(value[rows] for value in vars(self).values()))


def gradients(loss, group: Group, advantage_B: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Ascent direction in theta, where score_i = n_i s_i theta in total nats, and in the ratios."""
    advantage_B = group.advantage_B if advantage_B is None else advantage_B
    size_B1 = group.size_B.unsqueeze(1).to(group.x_B.dtype)
    theta_D = torch.zeros(WIDTH, dtype=group.direction_BD.dtype, requires_grad=True)
    score_BU = size_B1 * (group.direction_BD @ theta_D).unsqueeze(1) - 5.0
    ratio_BU = (group.x_B.unsqueeze(1) * size_B1).requires_grad_()
    facts = units(len(group.x_B), size_BU=size_B1.float())
    new, old = Estimate(score_BU, ratio_BU), estimate(torch.zeros_like(ratio_BU))
    scalar, _ = loss(new, old, None, advantage_B.unsqueeze(1), facts)
    theta_grad, ratio_grad = torch.autograd.grad(
        scalar, (theta_D, ratio_BU), allow_unused=True, materialize_grads=True
    )
    return -theta_grad, ratio_grad


def weights(loss, x_B: Tensor, size_B: Tensor | None = None) -> Tensor:
    """w_i, recovered from the gradient of the scores with all advantages 1."""
    size_B = torch.ones(len(x_B)) if size_B is None else size_B
    size_B1 = size_B.unsqueeze(1).to(x_B.dtype)
    score_BU = torch.zeros(len(x_B), 1, dtype=x_B.dtype, requires_grad=True)
    new = Estimate(score_BU, x_B.unsqueeze(1) * size_B1)
    old = estimate(torch.zeros_like(size_B1))
    facts = units(len(x_B), size_BU=size_B1.float())
    scalar, _ = loss(new, old, None, torch.ones(len(x_B), 1), facts)
    (grad_BU,) = torch.autograd.grad(scalar, score_BU)
    return (-grad_BU * size_B1).squeeze(1)


@st.composite
def groups(draw, min_size=1, max_size=16, ratios=log_ratios):
    x_B = torch.tensor(draw(st.lists(ratios, min_size=min_size, max_size=max_size)))
    G, case = len(x_B), draw(cases())
    sign_B = 2 * case.integers("sign", 0, 1, G) - 1
    return Group(
        x_B.double(),
        (sign_B * case.uniform("advantage", G, low=0.01, high=3)).double(),
        case.integers("size", 1, 9, G).double(),
        case.normal("direction", G, WIDTH).double(),
    )


@st.composite
def losses(draw, **fixed):
    return StableDrl(clip_low=draw(bounds), clip_high=draw(bounds), **fixed)


def interval(loss) -> tuple[float, float]:
    """(c_lo, c_hi) of a loss with both bounds."""
    return max(1 - loss.clip_low, 0.0), 1 + loss.clip_high


@few
@given(group=groups(), loss=losses(), dtype=st.sampled_from(["float64", "float32", "bfloat16"]))
def test_1_weights_are_a_distribution_for_any_ratios(group, loss, dtype):
    x_B = group.x_B
    if dtype == "bfloat16":
        x_B = x_B.bfloat16().float()
    elif dtype == "float32":
        x_B = x_B.float()
    weight_B = weights(loss, x_B)
    assert weight_B.isfinite().all() and (weight_B >= 0).all()
    assert weight_B.sum().item() == pytest.approx(1, abs=1e-6)


@few
@given(group=groups(), loss=losses(), seed=st.integers(0, 2**31))
def test_2_no_direction_tells_the_update_from_the_hull_of_the_samples(group, loss, seed):
    found_D, _ = gradients(loss, group)
    generator = torch.Generator().manual_seed(seed)
    unit_D = torch.nn.functional.normalize(torch.randn(WIDTH, generator=generator).double(), dim=0)
    support_B = group.update_BD @ unit_D
    assert support_B.min() - 1e-6 <= found_D @ unit_D <= support_B.max() + 1e-6


@few
@given(group=groups(), loss=losses())
def test_3_the_update_is_no_longer_than_the_longest_of_a_sample(group, loss):
    found_D, _ = gradients(loss, group)
    assert found_D.norm() <= group.update_BD.norm(dim=1).max() + 1e-6


@few
@given(group=groups(), low=bounds, high=st.floats(0, 8))
def test_4_clipping_over_g_is_the_mean_ratio_times_the_self_normalised_update(group, low, high):
    normalised, _ = gradients(StableDrl(clip_low=low, clip_high=high), group)
    clipped, _ = gradients(StableDrl(clip_low=low, clip_high=high, self_normalise=False), group)
    floor = 0.0 if low is None or low >= 1 else 1 - low
    mean = group.x_B.exp().clamp(floor, 1 + high).mean()
    torch.testing.assert_close(clipped, mean * normalised, rtol=1e-6, atol=1e-9)


@few
@given(group=groups(ratios=st.floats(3, 1e4)), above=st.booleans(), high=st.floats(0, 8))
def test_5_ratios_beyond_one_bound_weigh_alike(group, above, high):
    # x >= 3 is a ratio of at least 20, above any 1 + high <= 9; -x is below 1 - 0.5
    group.x_B = group.x_B if above else -group.x_B
    loss = StableDrl(clip_low=0.5, clip_high=high)
    G = len(group.x_B)
    torch.testing.assert_close(weights(loss, group.x_B), torch.full_like(group.x_B, 1 / G))
    found_D, _ = gradients(loss, group)
    torch.testing.assert_close(found_D, group.update_BD.mean(0), rtol=1e-6, atol=1e-6)


@few
@given(group=groups(ratios=st.floats(-0.6, 0.6)), constant=st.floats(-1, 1))
def test_6_a_constant_that_crosses_no_bound_changes_nothing(group, constant):
    # x + constant stays in [-1.6, 1.6], inside (-inf, log 6 = 1.79]
    loss = StableDrl()
    before, after = weights(loss, group.x_B), weights(loss, group.x_B + constant)
    torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-6)


@few
@given(group=groups(min_size=2), loss=losses(), data=st.data())
def test_7_permuting_permutes_and_a_duplicate_shares_the_weight(group, loss, data):
    G = len(group.x_B)
    order = torch.tensor(data.draw(st.permutations(range(G))))
    straight_B = weights(loss, group.x_B)
    torch.testing.assert_close(weights(loss, group.x_B[order]), straight_B[order])

    twice = torch.tensor([*range(G), 0])
    doubled_B = weights(loss, group.x_B[twice])
    assert doubled_B[0].item() == pytest.approx(doubled_B[-1].item(), abs=1e-9)
    # c_0 counts twice, the others keep their proportions
    odds_B = straight_B.clone()
    odds_B[0] *= 2
    merged_B = doubled_B[:G].clone()
    merged_B[0] *= 2
    torch.testing.assert_close(merged_B, odds_B / odds_B.sum(), rtol=1e-6, atol=1e-9)


@few
@given(group=groups(), low=st.floats(0, 0.95), high=st.floats(0, 8))
def test_8_bounds_of_the_ratio_bound_the_weights_and_the_sample_size(group, low, high):
    loss = StableDrl(clip_low=low, clip_high=high)
    (c_lo, c_hi), G = interval(loss), len(group.x_B)
    weight_B = weights(loss, group.x_B)
    assert weight_B.min() >= c_lo / (c_lo + (G - 1) * c_hi) - 1e-9
    assert weight_B.max() <= c_hi / (c_hi + (G - 1) * c_lo) + 1e-9
    assert 1 / weight_B.square().sum() >= 4 * G * c_lo * c_hi / (c_lo + c_hi) ** 2 - 1e-6


def test_8_the_worst_sample_size_of_sixteen_with_a_narrow_clip():
    # 4 * 16 * 0.8 * 1.2 / (0.8 + 1.2)^2 = 61.44 / 4 = 15.36; reached when the sums balance:
    # k ratios at 1.2 and 16 - k at 0.8 with k * 1.2 = (16 - k) * 0.8, k = 6.4, so 6 come close
    x_B = torch.tensor([5.0] * 6 + [-5.0] * 10, dtype=torch.float64)
    weight_B = weights(StableDrl(clip_low=0.2, clip_high=0.2), x_B)
    assert 15.36 <= 1 / weight_B.square().sum() < 15.4


@few
@given(group=groups(), loss=losses())
def test_9_autograd_is_the_explicit_sum_and_nothing_flows_into_the_weights(group, loss):
    found_D, ratio_grad = gradients(loss, group)
    weight_B = weights(loss, group.x_B, group.size_B)
    explicit_D = (weight_B.unsqueeze(1) * group.update_BD).sum(0)
    torch.testing.assert_close(found_D, explicit_D, rtol=1e-6, atol=1e-6)
    assert not ratio_grad.any()


@few
@given(group=groups(), loss=losses())
def test_10_the_weights_of_independent_samples_can_be_read_off_the_update(group, loss):
    # 20 dimensions hold up to 16 independent updates
    assume(torch.linalg.cond(group.update_BD) < 1e5)
    found_D, _ = gradients(loss, group)
    weight_B = torch.linalg.lstsq(group.update_BD.T, found_D.unsqueeze(1)).solution.squeeze(1)
    assert (weight_B >= -1e-6).all()
    assert weight_B.sum().item() == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(weight_B, weights(loss, group.x_B), rtol=1e-6, atol=1e-6)


def outlier() -> Group:
    """Sixteen samples of advantage -1; one has a ratio of 1e5, all scores are one unit vector."""
    x_B = torch.zeros(16, dtype=torch.float64)
    x_B[3] = math.log(1e5)
    direction_BD = torch.zeros(16, WIDTH, dtype=torch.float64)
    direction_BD[3, 0] = 1.0
    one_B = torch.ones(16, dtype=torch.float64)
    return Group(x_B, -one_B, one_B, direction_BD)


def test_11_one_outlier_moves_the_clipped_surrogate_and_not_this():
    # the open corner: A < 0 and ratio above 1 + eps keeps its ratio, 1e5 / 16 = 6250
    group = outlier()
    theta_D = torch.zeros(WIDTH, dtype=torch.float64, requires_grad=True)
    new = estimate((group.direction_BD @ theta_D).unsqueeze(1) + group.x_B.unsqueeze(1))
    old = estimate(torch.zeros(16, 1, dtype=torch.float64))
    surrogate = LOSSES.get("clipped_surrogate")(kl="none", normaliser="unit")
    scalar, _ = surrogate(new, old, None, group.advantage_B.unsqueeze(1), units(16))
    (grad_D,) = torch.autograd.grad(scalar, theta_D)
    assert grad_D.norm().item() == pytest.approx(6250, rel=1e-6)
    found_D, _ = gradients(StableDrl(), group)
    # c = 6 for the outlier, 1 for the 15 others: w = 6 / 21
    assert found_D.norm().item() == pytest.approx(6 / 21, rel=1e-6)


@few
@given(group=groups(), loss=losses())
def test_11_advantages_of_zero_update_nothing(group, loss):
    found_D, _ = gradients(loss, group, torch.zeros_like(group.advantage_B))
    assert not found_D.any()


@few
@given(group=groups(), high=st.floats(0, 8))
def test_12_clipping_alone_is_bounded_by_the_bound(group, high):
    found_D, _ = gradients(StableDrl(clip_high=high, self_normalise=False), group)
    assert found_D.norm() <= (1 + high) * group.update_BD.norm(dim=1).max() * (1 + 1e-6)


@few
@given(group=groups(ratios=st.floats(-0.6, 0.6)), constant=st.floats(-1, 1))
def test_12_clipping_alone_scales_with_noise_the_group_shares(group, constant):
    loss = StableDrl(self_normalise=False)
    before, _ = gradients(loss, group)
    group.x_B = group.x_B + constant
    after, _ = gradients(loss, group)
    torch.testing.assert_close(after, math.exp(constant) * before, rtol=1e-6, atol=1e-9)


@few
@given(group=groups())
def test_12_self_normalising_alone_stays_in_the_hull(group):
    loss = StableDrl(clip=False)
    weight_B = weights(loss, group.x_B)
    assert weight_B.sum().item() == pytest.approx(1, abs=1e-6)
    found_D, _ = gradients(loss, group)
    assert found_D.norm() <= group.update_BD.norm(dim=1).max() + 1e-6


def test_12_self_normalising_alone_gives_an_outlier_everything():
    # 1e5 / (1e5 + 15) = 0.99985
    weight_B = weights(StableDrl(clip=False), outlier().x_B)
    assert weight_B.max().item() == pytest.approx(1e5 / (1e5 + 15), rel=1e-6)


@few
@given(first=groups(), second=groups(), loss=losses())
def test_groups_do_not_share_a_softmax(first, second, loss):
    x_B = torch.cat([first.x_B, second.x_B])
    score_BU = torch.zeros(len(x_B), 1, dtype=torch.float64, requires_grad=True)
    group_B = torch.tensor([4] * len(first.x_B) + [9] * len(second.x_B))
    facts = units(len(x_B))
    facts = type(facts)(**{**vars(facts), "group_B": group_B, "totals": {"groups": 2.0}})
    scalar, _ = loss(
        Estimate(score_BU, x_B.unsqueeze(1)),
        estimate(torch.zeros_like(score_BU)),
        None,
        torch.ones(len(x_B), 1),
        facts,
    )
    (grad_BU,) = torch.autograd.grad(scalar, score_BU)
    expected_B = torch.cat([weights(loss, first.x_B), weights(loss, second.x_B)]) / 2
    torch.testing.assert_close(-grad_BU.squeeze(1), expected_B, rtol=1e-6, atol=1e-9)
