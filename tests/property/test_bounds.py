"""Bounds against the truth on random tables, every mask of the law written out."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dllmzoo.laws import toy
from dllmzoo.likelihoods._bounds import bound_views
from dllmzoo.records import Key, Rollout, Views
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import played, seeds

Sandwich, Eubo = LIKELIHOODS.get("sandwich"), LIKELIHOODS.get("eubo")
Exact = LIKELIHOODS.get("exact")
KEY = Key(0, 0, "views")


@st.composite
def answered_tables(draw, max_slots: int = 5) -> tuple[toy.TableDenoiser, Tensor]:
    """A random table over n slots, and an answer."""
    n = draw(st.integers(1, max_slots))
    policy = toy.TableDenoiser(n, draw(seeds), draw(st.sampled_from((0.3, 1.0, 3.0))))
    return policy, torch.tensor(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))


def every_mask(n: int) -> tuple[Tensor, Tensor]:
    """The nonempty subsets of n slots, (2^n - 1, n), and the probability of each.

    A size k is drawn with probability 1/n, then one of the binomial(n, k) subsets.
    """
    code = torch.arange(1, 2**n).unsqueeze(1)
    mask = code >> torch.arange(n) & 1 == 1
    prob = [1 / n / math.comb(n, int(k)) for k in mask.sum(1)]
    return mask, torch.tensor(prob, dtype=torch.float64)


def views_of(masks_BKN: Tensor, tokens_N: Tensor) -> tuple[Rollout, Views]:
    """The views of one answer, repeated in every row, under given masks."""
    B, _, N = masks_BKN.shape
    rollout = played(tokens_N.expand(B, N).tolist(), [list(range(N))] * B)
    score_BKL = torch.nn.functional.pad(masks_BKN, (1, 0))
    return rollout, bound_views(score_BKL, score_BKL, rollout, 1.0)


def pooled(part, policy, rollout, views, sign: float):
    advantage_BU = torch.full_like(views.size_BU, sign)
    return part.pool(toy.logprobs(policy, rollout, views), views, rollout, advantage_BU)


def truth(policy, tokens_N) -> tuple[float, float]:
    """ELBO and log-likelihood, from every order of the slots written out."""
    reveal_BN = toy.orders([1] * len(tokens_N))
    rollout = played(tokens_N.expand(len(reveal_BN), -1).tolist(), reveal_BN.tolist())
    chain_B = toy.chain_logprob(policy, rollout)
    return chain_B.mean().item(), (chain_B.logsumexp(0) - math.log(len(chain_B))).item()


def limit(policy, tokens_N, exponent: float) -> tuple[float, float]:
    """Upper bound and E of the whole mask law: so many views of each mask as its probability."""
    mask, prob = every_mask(len(tokens_N))
    times = prob / prob.min()  # 1 to binomial(n, n/2), as fractions of small numbers
    common = next(c for c in range(1, 61) if (times * c - (times * c).round()).abs().max() < 1e-9)
    times = (times * common).round().long()
    rollout, views = views_of(mask.repeat_interleave(times, 0).unsqueeze(0), tokens_N)
    found = pooled(Eubo(exponent=exponent), policy, rollout, views, -1.0)
    return found.score_BU.item(), found.ratio_BU.item()


@given(answered_tables())
def test_exact_equals_all_orders_written_out(case):
    policy, tokens_N = case
    rollout, found = toy.answered(tokens_N, 1), []
    for of in ("elbo", "loglikelihood"):
        part = Exact(of=of)
        views = part.plan(rollout, None, KEY, 1)
        found.append(pooled(part, policy, rollout, views, 1.0).score_BU.item())
    assert found == pytest.approx(truth(policy, tokens_N), abs=1e-10)


@given(answered_tables())
def test_the_mean_of_e_over_all_masks_is_the_elbo_and_so_at_most_the_log_likelihood(case):
    policy, tokens_N = case
    mask, prob = every_mask(len(tokens_N))
    rollout, views = views_of(mask.unsqueeze(1), tokens_N)
    for sign, part in ((1.0, Sandwich()), (-1.0, Sandwich(negative="lower"))):
        found = pooled(part, policy, rollout, views, sign)
        mean = (prob @ found.score_BU.squeeze(1)).item()
        elbo, log_likelihood = truth(policy, tokens_N)
        assert mean == pytest.approx(elbo, abs=1e-10)
        assert mean <= log_likelihood + 1e-10


@given(answered_tables(max_slots=4))
def test_two_views_average_to_the_elbo_over_all_pairs_of_masks(case):
    policy, tokens_N = case
    mask, prob = every_mask(len(tokens_N))
    pairs = torch.cartesian_prod(torch.arange(len(mask)), torch.arange(len(mask)))
    rollout, views = views_of(mask[pairs], tokens_N)
    found = pooled(Sandwich(), policy, rollout, views, 1.0)
    mean = prob[pairs].prod(1) @ found.score_BU.squeeze(1)
    assert mean.item() == pytest.approx(truth(policy, tokens_N)[0], abs=1e-10)


@given(answered_tables(), st.sampled_from((0.5, 1.0, 1.5, 2.0)))
def test_one_view_of_the_upper_bound_averages_to_the_elbo_and_a_known_offset(case, exponent):
    policy, tokens_N = case
    n, (mask, prob) = len(tokens_N), every_mask(len(tokens_N))
    rollout, views = views_of(mask.unsqueeze(1), tokens_N)
    found = pooled(Eubo(exponent=exponent), policy, rollout, views, -1.0)
    mean = (prob @ found.score_BU.squeeze(1)).item()
    offset = math.log(n**n / math.factorial(n)) / exponent
    assert mean == pytest.approx(truth(policy, tokens_N)[0] + offset, abs=1e-9)


@given(answered_tables(), st.sampled_from((0.5, 1.0, 1.5, 2.0, 5.0)))
def test_over_all_masks_the_upper_bound_is_above_the_elbo_for_any_exponent(case, exponent):
    policy, tokens_N = case
    upper, lower = limit(policy, tokens_N, exponent)
    elbo, _ = truth(policy, tokens_N)
    assert lower == pytest.approx(elbo, abs=1e-9)
    assert upper >= elbo - 1e-9


@given(answered_tables(), st.floats(0.0, 3.0))
def test_the_sandwich_brackets_the_log_likelihood_if_the_exponent_is_at_least_the_length(
    case, more
):
    policy, tokens_N = case
    upper, lower = limit(policy, tokens_N, len(tokens_N) + more)
    _, log_likelihood = truth(policy, tokens_N)
    assert lower - 1e-9 <= log_likelihood <= upper + 1e-9


def one_joint_law(n: int, seed: int) -> toy.TableDenoiser:
    """The table whose conditionals are those of one random law over all answers."""
    policy, answers = toy.TableDenoiser(n, seed), toy.answers(n)
    generator = Key(seed, 0, "joint").generator()
    law_X = torch.randn(2**n, generator=generator, dtype=torch.float64).mul(2).softmax(0)
    with torch.no_grad():
        for index in range(3**n):
            state_N = torch.tensor([index // 3**i % 3 for i in range(n)])
            fits_X = ((state_N == 2) | (state_N == answers)).all(1)
            for slot in range(n):
                for token in (0, 1):
                    mass = law_X[fits_X & (answers[:, slot] == token)].sum()
                    policy.table[index, slot, token] = mass.clamp(min=1e-300).log()
    return policy


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_conditionals_of_one_joint_law_are_bracketed_by_any_exponent(n, exponent):
    policy = one_joint_law(n, seed=n)
    for tokens_N in toy.answers(n):
        upper, lower = limit(policy, tokens_N, exponent)
        elbo, log_likelihood = truth(policy, tokens_N)
        assert elbo == pytest.approx(log_likelihood), "all orders agree"
        assert lower - 1e-9 <= log_likelihood <= upper + 1e-9


@given(answered_tables(), seeds)
def test_plans_of_random_masks_follow_the_law_that_was_written_out(case, seed):
    _, tokens_N = case
    rollout = toy.answered(tokens_N, 400)
    views = Sandwich(masks="random", views=1).plan(rollout, None, Key(seed, 0, "views"), 1)
    mask, prob = every_mask(len(tokens_N))
    code = (views.score_BKL[:, 0, 1:] * 2 ** torch.arange(len(tokens_N))).sum(1)
    share = torch.bincount(code, minlength=2 ** len(tokens_N))[1:] / 400
    # 5 standard errors of a share of 400
    assert ((share - prob).abs() <= 5 * (prob * (1 - prob) / 400).sqrt() + 5 / 400).all()
    assert not views.weight_BKL[~views.score_BKL].any()
    size = mask.sum(1)[code - 1].double()
    torch.testing.assert_close(views.weight_BKL[:, 0].amax(1).double(), len(tokens_N) / size)
