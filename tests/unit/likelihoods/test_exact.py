"""The oracle: hand numbers, agreement with all orders written out, ragged answers, its limit."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.laws import toy
from dllmzoo.records import Key, take
from dllmzoo.scoring import score
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import played

Exact = LIKELIHOODS.get("exact")
KEY = Key(0, 0, "views")


def pooled(part, policy, rollout):
    views = part.plan(rollout, None, KEY, 1)
    logprob_BKL = toy.logprobs(policy, rollout, views)
    return part.pool(logprob_BKL, views, rollout, torch.zeros(len(rollout.tokens_BL), 1)).score_BU


def chains(policy, tokens_N):
    """Log-prob of an answer in each order of its slots."""
    reveal_BN = toy.orders([1] * len(tokens_N))
    rollout = played(tokens_N.expand(len(reveal_BN), -1).tolist(), reveal_BN.tolist())
    return toy.chain_logprob(policy, rollout)


def test_two_tokens_by_hand():
    # log-probs: slot 1 from {1}: a, slot 2 from {2}: b, from {1, 2}: c and d
    # orders: 1 first: c + b; 2 first: d + a. ELBO = (a + b + c + d) / 2
    a, b, c, d = -1.0, -2.0, -0.5, -3.0
    rollout = played([[1, 2]], [[0, 1]])
    views = Exact().plan(rollout, None, KEY, 1)
    assert views.score_BKL[0, :, 1:].int().tolist() == [[1, 0], [0, 1], [1, 1]]
    # 1 / (k binomial(2, k)): 1/2, 1/2, and 1/2
    assert views.weight_BKL[views.score_BKL].tolist() == pytest.approx([0.5] * 4)
    logprob_BKL = torch.tensor([[[0, a, 0], [0, 0, b], [0, c, d]]])
    elbo, log_p = (
        Exact(of=of).pool(logprob_BKL, views, rollout, torch.zeros(1, 1)).score_BU.item()
        for of in ("elbo", "loglikelihood")
    )
    assert elbo == pytest.approx((a + b + c + d) / 2)
    assert log_p == pytest.approx(math.log((math.exp(c + b) + math.exp(d + a)) / 2))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_both_equal_all_orders_written_out(n):
    policy = toy.TableDenoiser(slots=n, seed=n, scale=2.0)
    for seed in range(4):
        tokens_N = torch.randint(2, (n,), generator=Key(seed, 0, "answer").generator())
        rollout, chain = toy.answered(tokens_N, 1), chains(policy, tokens_N)
        assert pooled(Exact(), policy, rollout).item() == pytest.approx(
            chain.mean().item(), abs=1e-12
        )
        log_p = torch.logsumexp(chain, 0) - math.log(len(chain))
        found = pooled(Exact(of="loglikelihood"), policy, rollout)
        assert found.item() == pytest.approx(log_p.item(), abs=1e-12)


def test_likelihoods_of_all_answers_add_up_to_one():
    policy = toy.TableDenoiser(slots=4, seed=2, scale=2.0)
    rollout = played(toy.answers(4).tolist(), [[0, 1, 2, 3]] * 16)
    total = pooled(Exact(of="loglikelihood"), policy, rollout).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("of", ["elbo", "loglikelihood"])
def test_gradients_equal_those_of_all_orders(of):
    policy, tokens_N = toy.TableDenoiser(slots=3, seed=3), torch.tensor([1, 0, 1])
    chain = chains(policy, tokens_N)
    value = chain.mean() if of == "elbo" else torch.logsumexp(chain, 0) - math.log(len(chain))
    (expected,) = torch.autograd.grad(value, policy.table)
    (found,) = torch.autograd.grad(
        pooled(Exact(of=of), policy, toy.answered(tokens_N, 1)).sum(), policy.table
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("of", ["elbo", "loglikelihood"])
def test_shorter_answers_cost_fewer_forwards_and_equal_themselves_alone(of):
    # 4, 2 and 1 valid tokens; what stands behind the end is hidden throughout
    rollout = played([[1, 2, 3, 5], [1, 5, 3, 3], [5, 1, 1, 1]], [[0, 1, 2, 3]] * 3)
    views = Exact(of=of).plan(rollout, None, KEY, 1)
    assert views.score_BKL.any(2).sum(1).tolist() == [15, 3, 1]
    assert views.hide_BKL[1, :, 3:].all() and views.hide_BKL[2, :, 2:].all()
    logprob_BKL = -torch.rand(views.score_BKL.shape, generator=KEY.generator()).double()
    logprob_BKL = logprob_BKL * views.score_BKL
    whole = Exact(of=of).pool(logprob_BKL, views, rollout, torch.zeros(3, 1)).score_BU
    for b, n in enumerate((4, 2, 1)):
        masks = [c for c in itertools.product((0, 1), repeat=n) if any(c)]
        assert len(masks) == 2**n - 1
        alone = take(rollout, torch.tensor([b]))
        again = Exact(of=of).plan(alone, None, KEY, 1)
        found = Exact(of=of).pool(logprob_BKL[b : b + 1], again, alone, torch.zeros(1, 1))
        assert found.score_BU.item() == pytest.approx(whole[b].item(), abs=1e-12)
    # the last row is one token from a wholly hidden answer
    assert whole[2].item() == pytest.approx(logprob_BKL[2, 0, 1].item())


def test_given_slots_are_left_alone():
    rollout = played([[1, 2, 3]], [[0, 1, 2]])
    fixed = torch.tensor([[False, False, True, False]])
    rollout = replace(
        rollout, answer_BL=rollout.answer_BL & ~fixed, valid_BL=rollout.valid_BL & ~fixed
    )
    views = Exact().plan(rollout, None, KEY, 1)
    shown = {tuple(row) for row in views.score_BKL[0].int().tolist() if any(row)}
    assert shown == {(0, 1, 0, 0), (0, 0, 0, 1), (0, 1, 0, 1)}
    assert not views.hide_BKL[..., 2].any()


def test_an_empty_answer_is_worth_nothing():
    rollout = played([[1, 2]], [[0, 1]])
    rollout = replace(rollout, valid_BL=torch.zeros_like(rollout.valid_BL))
    for of in ("elbo", "loglikelihood"):
        views = Exact(of=of).plan(rollout, None, KEY, 1)
        found = Exact(of=of).pool(torch.zeros(1, 3, 3), views, rollout, torch.zeros(1, 1))
        assert found.score_BU.item() == 0 and not views.live_BU.any()


def test_extreme_log_probs_stay_finite():
    policy = toy.TableDenoiser(slots=4, seed=5, scale=1000.0)
    tokens_N = min(toy.answers(4), key=lambda tokens_N: chains(policy, tokens_N).max().item())
    found = pooled(Exact(of="loglikelihood"), policy, toy.answered(tokens_N, 1))
    chain = chains(policy, tokens_N)
    assert chain.max() < -750, "every order underflows"
    assert found.item() == pytest.approx((torch.logsumexp(chain, 0) - math.log(24)).item())
    found.sum().backward()
    assert policy.table.grad.isfinite().all()


def test_the_scorer_gives_the_same_numbers():
    policy, rollout = toy.TableDenoiser(slots=3, seed=1), toy.trajectories((1, 1, 1))
    policy.dtype = torch.float64
    part = Exact(of="loglikelihood")
    views = part.plan(rollout, None, KEY, 1)
    logprob_BKL = score(policy, rollout, views, micro_batch=7).logprob_BKL
    found = part.pool(logprob_BKL, views, rollout, torch.zeros(len(rollout.tokens_BL), 1))
    torch.testing.assert_close(found.score_BU, pooled(part, policy, rollout), rtol=0, atol=1e-12)


def test_longer_answers_are_refused_with_the_limit():
    rollout = played([[1] * 9], [[0] * 9])
    with pytest.raises(UsageError, match=r"max_tokens = 8 tokens, and an answer has 9: 2\^9 - 1"):
        Exact(max_tokens=8).plan(rollout, None, KEY, 1)
    # a long canvas is fine as long as the answer ends early
    early = played([[1, 5, *[1] * 10]], [[0] * 12])
    views = Exact(max_tokens=8).plan(early, None, KEY, 1)
    assert views.score_BKL.shape[1] == 255 == Exact(max_tokens=8).num_forwards
    assert views.score_BKL.any(2).sum().item() == 3


def test_limits_out_of_range_are_refused():
    for wrong in (7, 17):
        with pytest.raises(ValidationError):
            Exact(max_tokens=wrong)
