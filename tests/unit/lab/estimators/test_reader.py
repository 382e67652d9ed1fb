import pytest
import torch

from dllmzoo.lab.estimators.bench import Bench
from dllmzoo.lab.estimators.options import Options
from dllmzoo.lab.estimators.reader import alike, logprobs, pull_back, reading
from dllmzoo.lab.estimators.table_world import table_world
from dllmzoo.laws import inputs, toy
from dllmzoo.laws.case import Case
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.records import Key
from dllmzoo.scoring import score
from dllmzoo.zoo import LIKELIHOODS

RANDOM = ("elbo", "mean_field", "masked_tokens", "sandwich", "two_mean_field")


def test_equal_rows_get_one_number():
    place_R, first = alike(torch.tensor([[7, -1], [7, 2], [7, -1], [8, 2]]))
    assert place_R[0] == place_R[2] and len(first) == 3
    assert first[place_R].tolist() == [0, 1, 0, 3]


def test_wide_rows_of_large_numbers_stay_apart():
    value_RL = torch.randint(0, 1000, (50, 40), generator=torch.Generator().manual_seed(0))
    place_R, first = alike(torch.cat([value_RL, value_RL]))
    assert len(first) == 50 and torch.equal(place_R[:50], place_R[50:])


@pytest.mark.parametrize("name", RANDOM)
def test_log_probs_are_those_of_the_scorer(name):
    case = Case(3)
    rollout = inputs.rollout(case)
    views = LIKELIHOODS.get(name)().plan(rollout, None, case.key("views"), 1)
    policy = ToyDenoiser(5)
    found = logprobs(policy, reading(rollout, views, policy.mask_id), micro_batch=3)
    expected = score(policy, rollout, views, micro_batch=64).logprob_BKL
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("micro_batch", [2, 64])
def test_gradients_are_those_of_the_table(micro_batch):
    world = table_world(Options(slots=3))
    rollout = world.rollout(world.draw(12, Key(0, 0, "rows")))
    views = LIKELIHOODS.get("elbo")(views=2).plan(rollout, None, Key(0, 0, "views"), 1)
    weight_BKL = torch.rand(views.score_BKL.shape, generator=torch.Generator().manual_seed(0))
    estimate_B = torch.arange(12) // 4
    found = reading(rollout, views, world.old.mask_id)
    grads = list(pull_back(world.old, found, weight_BKL, estimate_B, 3, micro_batch))
    for estimate in range(3):
        rows = estimate_B == estimate
        value = (toy.logprobs(world.old, rollout, views) * weight_BKL)[rows].sum()
        (expected,) = torch.autograd.grad(value, world.old.table)
        torch.testing.assert_close(grads[estimate], expected.flatten())


@pytest.mark.parametrize("seed", [0, 1])
def test_the_exact_gradient_is_that_of_enumeration(seed):
    bench = Bench(table_world(Options(slots=3, seed=seed)), Options(slots=3, seed=seed, draws=64))
    expected = toy.exact_gradient(bench.world.old, bench.world.reward_X).flatten()
    torch.testing.assert_close(bench.gradient, expected, rtol=0, atol=1e-12)


def test_an_estimate_with_every_answer_in_proportion_is_the_exact_gradient():
    from dllmzoo.lab.estimators.truth_gradient import exact_estimates

    bench = Bench(table_world(Options(slots=3)), Options(slots=3, draws=64))
    weight = (bench.world.prob_X * bench.world.advantage_X).unsqueeze(0)
    torch.testing.assert_close(exact_estimates(bench.world, weight)[0], bench.gradient)
