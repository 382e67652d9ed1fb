"""Estimators of the ELBO against the exact one, by leading each plan through all its draws."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor

from dllmzoo.laws import toy
from dllmzoo.records import Rollout, Views
from dllmzoo.zoo import LIKELIHOODS
from tests.scripted import hiding, script
from tests.strategies import played

Elbo, Coupled = LIKELIHOODS.get("elbo"), LIKELIHOODS.get("coupled")
Quadrature, Prefixes = LIKELIHOODS.get("quadrature"), LIKELIHOODS.get("prefixes")
TwoMeanField, MaskedTokens = LIKELIHOODS.get("two_mean_field"), LIKELIHOODS.get("masked_tokens")
EXACT = {"rtol": 0, "atol": 1e-12}


def answer(n: int) -> Tensor:
    return torch.tensor([0, 1, 1, 0, 1, 0])[:n]


def policy(n: int) -> toy.TableDenoiser:
    """A random table of log-probs, float64."""
    return toy.TableDenoiser(slots=n, seed=n, scale=1.5)


def pooled(likelihood, n: int, rollout: Rollout, views: Views) -> Tensor:
    """Total nats of each row: units added up, those of single views averaged."""
    logprob_BKL = toy.logprobs(policy(n), rollout, views)
    score_BU = likelihood.pool(logprob_BKL, views, rollout, torch.ones_like(views.size_BU)).score_BU
    assert score_BU.dtype == torch.float64
    return score_BU.mean(1) if likelihood.unit == "view" else score_BU.sum(1)


def after_prompt(value_BN: Tensor) -> Tensor:
    """The numbers of a canvas behind one word of prompt."""
    return torch.nn.functional.pad(value_BN, (1, 0))


def every_draw(n: int, cells: int) -> tuple[Tensor, Tensor, Rollout]:
    """Middles of equal cells of [0, 1) times all orders of the slots: (B,), (B, L), B rows."""
    orders = torch.tensor(list(itertools.permutations(range(n)))) / n
    middles = (torch.arange(cells, dtype=torch.float64) + 0.5) / cells
    drawn_B = middles.repeat_interleave(len(orders))
    order_BL = after_prompt(orders.double().repeat(cells, 1))
    return drawn_B, order_BL, toy.answered(answer(n), len(drawn_B))


def every_mask(n: int) -> Tensor:
    """All subsets of n slots, bool (2^n, n)."""
    return torch.tensor(list(itertools.product((False, True), repeat=n)))


SIZES = [(n, 1) for n in range(1, 7)] + [(2, 2), (3, 2), (4, 2), (4, 3), (3, 4)]


@pytest.mark.parametrize("unit", ["sequence", "view"])
@pytest.mark.parametrize("weight", ["elbo", "plus_one"])
@pytest.mark.parametrize("spacing", ["independent", "stratified", "strided"])
@pytest.mark.parametrize(("n", "views"), SIZES)
def test_uniform_k_averages_to_the_exact_elbo(n, views, spacing, weight, unit):
    # a size changes at multiples of 1 / (n K) or 1 / ((n + 1) K) at most
    drawn_B, order_BL, rollout = every_draw(n, views * (n if weight == "elbo" else n + 1))
    likelihood = Elbo(views=views, spacing=spacing, weight=weight, unit=unit)
    key = script(size=drawn_B, **{f"view{k}": order_BL for k in range(views)})
    plan = likelihood.plan(rollout, None, key, 1)
    expected = toy.elbo(policy(n), answer(n)).detach()
    found = pooled(likelihood, n, rollout, plan).mean().detach()
    torch.testing.assert_close(found, expected, **EXACT)


@pytest.mark.parametrize(("n", "views"), [(4, 2), (5, 3), (6, 4)])
def test_every_view_of_a_strided_plan_has_uniform_sizes(n, views):
    drawn_B, order_BL, rollout = every_draw(n, n * views)
    key = script(size=drawn_B, **{f"view{k}": order_BL for k in range(views)})
    plan = Elbo(views=views, spacing="strided").plan(rollout, None, key, 1)
    for size_B in plan.score_BKL.sum(2).T:
        assert size_B.bincount(minlength=n + 1)[1:].unique().numel() == 1


def integrated(likelihood, n: int, nodes: int) -> Tensor:
    """The mean over t, by a rule of the given order, and over all masks at each t."""
    node, share = (torch.tensor(each) for each in leggauss(nodes))
    time_Q, share_Q = (node + 1) / 2, share / 2
    mask_BN = every_mask(n).repeat(nodes, 1)
    time_B, share_B = (each.repeat_interleave(2**n) for each in (time_Q, share_Q))
    rollout = toy.answered(answer(n), len(mask_BN))
    key = script(size=1 - time_B, view0=hiding(after_prompt(mask_BN)))
    plan = likelihood.plan(rollout, None, key, 1)
    assert torch.equal(plan.score_BKL[:, 0, 1:], mask_BN)
    m_B, hidden_B = likelihood.schedule.mask_prob(time_B), mask_BN.sum(1).double()
    chance_B = m_B**hidden_B * (1 - m_B) ** (n - hidden_B)
    return (share_B * chance_B * pooled(likelihood, n, rollout, plan)).sum().detach()


@pytest.mark.parametrize("unit", ["sequence", "view"])
@pytest.mark.parametrize("weight", ["elbo", "plus_one"])
@pytest.mark.parametrize("n", range(1, 7))
def test_uniform_t_averages_to_the_exact_elbo(n, weight, unit):
    likelihood = Elbo(views=1, subset="uniform_t", weight=weight, unit=unit)
    expected = toy.elbo(policy(n), answer(n)).detach()
    torch.testing.assert_close(integrated(likelihood, n, n + 1), expected, **EXACT)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_the_schedule_does_not_move_the_mean_of_uniform_t(n):
    likelihood = Elbo(views=1, subset="uniform_t", schedule="cosine")
    expected = toy.elbo(policy(n), answer(n)).detach()
    torch.testing.assert_close(integrated(likelihood, n, 60), expected, **EXACT)


@pytest.mark.parametrize("n", range(1, 7))
def test_unweighted_means_average_to_a_known_share_of_the_elbo(n):
    # per token: ELBO / n for k in 1..n, ELBO / (n + 1) for uniform t
    exact = toy.elbo(policy(n), answer(n)).detach()
    likelihood = Elbo(views=1, subset="uniform_t", weight="none")
    found = integrated(likelihood, n, n + 1) / n
    torch.testing.assert_close(found, exact / (n + 1), **EXACT)

    drawn_B, order_BL, rollout = every_draw(n, n)
    likelihood = Elbo(views=1, weight="none")
    plan = likelihood.plan(rollout, None, script(size=drawn_B, view0=order_BL), 1)
    found = pooled(likelihood, n, rollout, plan).mean().detach() / n
    torch.testing.assert_close(found, exact / n, **EXACT)


@pytest.mark.parametrize("over", ["valid", "canvas"])
@pytest.mark.parametrize(
    ("sample", "strata"), [(0, 1), (0, 2), (1, 2), (2, 3), (5, 3), (4, 6), (0, None)]
)
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_pair_of_complements_averages_to_the_exact_elbo(n, sample, strata, over):
    # a count changes at multiples of 1 / (2 (n + 1) b) at most
    drawn_B, order_BL, rollout = every_draw(n, 2 * (n + 1) * (strata or 1))
    rollout = replace(rollout, sample_B=torch.full_like(rollout.sample_B, sample))
    likelihood = Coupled(form="elbo", strata=strata, over=over)
    plan = likelihood.plan(rollout, None, script(draw0=order_BL, draw0__place=drawn_B), 1)
    sizes = plan.score_BKL.sum(2)
    assert sizes.sum(1).unique().tolist() == [n]
    assert sizes[:, 0].bincount(minlength=n + 1).unique().numel() == 1
    expected = toy.elbo(policy(n), answer(n)).detach()
    found = pooled(likelihood, n, rollout, plan).mean().detach()
    torch.testing.assert_close(found, expected, **EXACT)


def test_a_pair_of_six_slots_averages_to_the_exact_elbo():
    drawn_B, order_BL, rollout = every_draw(6, 2 * 7)
    likelihood = Coupled(form="elbo", stratified=False)
    plan = likelihood.plan(rollout, None, script(draw0=order_BL, draw0__place=drawn_B), 1)
    expected = toy.elbo(policy(6), answer(6)).detach()
    found = pooled(likelihood, 6, rollout, plan).mean().detach()
    torch.testing.assert_close(found, expected, **EXACT)


def quadrature_mean(nodes: int, n: int) -> Tensor:
    """The mean of the estimate over all masks at each node, one node at a time."""
    mask_BN = every_mask(n)
    rollout = toy.answered(answer(n), len(mask_BN))
    likelihood = Quadrature(nodes=nodes)
    numbers = {f"view{k}": hiding(after_prompt(mask_BN)) for k in range(nodes)}
    plan = likelihood.plan(rollout, None, script(**numbers), 1)
    node, _ = leggauss(nodes)
    total = torch.zeros((), dtype=torch.float64)
    for q, t in enumerate((node + 1) / 2):
        alone = plan.score_BKL & (torch.arange(nodes) == q).view(1, -1, 1)
        part_B = pooled(likelihood, n, rollout, replace(plan, score_BKL=alone))
        hidden_B = mask_BN.sum(1).double()
        total = total + (t**hidden_B * (1 - t) ** (n - hidden_B) * part_B).sum().detach()
    return total


@pytest.mark.parametrize(
    ("nodes", "n"), [(1, 1), (1, 2), (2, 3), (2, 4), (3, 5), (3, 6), (8, 6), (64, 4)]
)
def test_quadrature_is_exact_with_enough_nodes(nodes, n):
    expected = toy.elbo(policy(n), answer(n)).detach()
    torch.testing.assert_close(quadrature_mean(nodes, n), expected, **EXACT)


@pytest.mark.parametrize(("nodes", "n"), [(1, 3), (2, 5), (2, 6)])
def test_quadrature_with_fewer_nodes_is_not(nodes, n):
    assert (quadrature_mean(nodes, n) - toy.elbo(policy(n), answer(n))).abs() > 1e-5


@pytest.mark.parametrize("t", [0.2, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("n", [1, 3, 4])
def test_a_coupled_token_of_one_nat_has_the_mean_1_and_a_half(t, n):
    mask_BN = every_mask(n)
    rollout = toy.answered(answer(n), len(mask_BN))
    likelihood = Coupled(low=t, high=t)
    key = script(draw0=hiding(after_prompt(mask_BN)), draw0__place=torch.zeros(len(mask_BN)))
    plan = likelihood.plan(rollout, None, key, 1)
    score_BU = likelihood.pool(-plan.score_BKL.double(), plan, rollout, plan.size_BU).score_BU
    value_BN = score_BU[:, 1:]
    hidden_B = mask_BN.sum(1).double()
    chance_B1 = (t**hidden_B * (1 - t) ** (n - hidden_B)).unsqueeze(1)
    mean_N = (chance_B1 * value_BN).sum(0)
    torch.testing.assert_close(mean_N, torch.full_like(mean_N, -1.5), **EXACT)
    # hidden at t: -(1 + 1 / t) / 2; by the twin: -(1 + 1 / (1 - t)) / 2
    hidden, shown = (torch.tensor(-(1 + 1 / p) / 2).double() for p in (t, 1 - t))
    expected_BN = torch.where(mask_BN, hidden, shown)
    torch.testing.assert_close(value_BN, expected_BN, rtol=0, atol=1e-6)


def test_coupled_token_values_reach_from_3_to_1_and_an_eighth():
    # t = 0.2: -(1 + 5) / 2 = -3 and -(1 + 1.25) / 2 = -1.125
    rollout = played([[1, 2]], [[0, 1]])
    likelihood = Coupled()
    mask_BN = torch.tensor([[True, False]])
    key = script(draw0=hiding(after_prompt(mask_BN)), draw0__place=torch.zeros(1))
    plan = likelihood.plan(rollout, None, key, 1)
    score_BU = likelihood.pool(-plan.score_BKL.double(), plan, rollout, plan.size_BU).score_BU
    assert score_BU[0, 1:].tolist() == pytest.approx([-3.0, -1.125])


@pytest.mark.parametrize("n", [1, 3, 6])
def test_prefixes_are_the_exact_log_likelihood_of_left_to_right_decoding(n):
    rollout = toy.answered(answer(n), 1)  # token i was committed at step i
    plan = Prefixes().plan(rollout, None, script(), 1)
    expected = toy.chain_logprob(policy(n), rollout)
    torch.testing.assert_close(pooled(Prefixes(), n, rollout, plan), expected, **EXACT)


@pytest.mark.parametrize("likelihood", [Prefixes(), TwoMeanField()], ids=lambda part: type(part))
def test_every_valid_slot_is_scored_exactly_once(likelihood):
    # 5 is the end token
    rollout = played([[1, 2, 5, 3], [1, 2, 3, 4], [5, 1, 1, 1]], [[0, 2, 1, 1]] * 3)
    for place in (0.0, 0.4, 0.9):
        plan = likelihood.plan(rollout, None, script(step=torch.full((3,), place)), 1)
        assert torch.equal(plan.score_BKL.sum(1), rollout.valid_BL.long())


def test_masked_tokens_average_to_the_share_of_the_elbo_that_their_docstring_says():
    # mean over hidden tokens, p uniform: ELBO / (n + 1)
    n = 4
    node, share = (torch.tensor(each) for each in leggauss(n + 1))
    total = torch.zeros((), dtype=torch.float64)
    mask_BN = every_mask(n)
    rollout = toy.answered(answer(n), len(mask_BN))
    for p, part in zip((node + 1) / 2, share / 2, strict=True):
        key = script(rate=p.expand(len(mask_BN)), view0=hiding(after_prompt(mask_BN)))
        plan = MaskedTokens().plan(rollout, None, key, 1)
        hidden_B = mask_BN.sum(1).double()
        mean_B = pooled(MaskedTokens(), n, rollout, plan) / hidden_B.clamp(min=1)
        total = total + (part * p**hidden_B * (1 - p) ** (n - hidden_B) * mean_B).sum().detach()
    torch.testing.assert_close(total, toy.elbo(policy(n), answer(n)).detach() / (n + 1), **EXACT)


@pytest.mark.parametrize("spacing", ["stratified", "strided"])
def test_spaced_draws_vary_less_than_independent_ones(spacing):
    drawn_B, order_BL, rollout = every_draw(4, 16)
    numbers = {f"view{k}": order_BL for k in range(4)}

    def sizes(how, draws):
        plan = Elbo(views=4, spacing=how).plan(rollout, None, script(size=draws, **numbers), 1)
        return plan.score_BKL.sum((1, 2)).double()

    # four independent sizes with one draw are the worst case, k k k k; spaced ones are 1 2 3 4
    assert math.isclose(float(sizes(spacing, drawn_B).std()), 0.0)
    assert sizes("independent", drawn_B).std() > 1
