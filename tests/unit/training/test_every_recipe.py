"""Every tiny recipe's method on a small network: splits and processes change no weight."""

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import torch

from dllmzoo import catalogue
from dllmzoo.recipe import load
from dllmzoo.records import Key, Rewards
from dllmzoo.training.loop import collect, train
from dllmzoo.training.meter import Meter
from dllmzoo.training.method import Method
from tests.unit.training.small import Digits, Ranks, budget, flat, learner, network

RECIPES = [
    name
    for name, file in catalogue.recipes().items()
    if "/" not in name and load(file).stage == "rl"
]
N = 8


@dataclass(frozen=True)
class Pairs(Digits):
    """Digits with stored answers: even samples of many digits, odd ones of few.

    Rewards are twice as large, so that about half of the answers pass a mark of 1.
    """

    def reward(self, texts: Any, examples: Any) -> Rewards:
        found = super().reward(texts, examples)
        return replace(found, total_X=2 * found.total_X, part_XC=2 * found.part_XC)

    def given(self, example: Any, key: Key, sample: int) -> str:
        return "43210123"[: 6 - 3 * (sample % 2)] if sample % 4 < 2 else "1234"[: 1 + sample % 3]


def shrunk(sampler):
    """The sampler with answers of 8 tokens, and as many steps as its order needs."""
    names = {field.name for field in fields(sampler)}
    changes: dict[str, Any] = {"answer_length": N}
    if "block_length" in names:
        changes["block_length"] = min(sampler.block_length or N, N)
    if "steps" in names:
        one_by_one = changes.get("block_length") == 1
        ascending = type(getattr(sampler, "commits", None)).__name__ == "Ascending"
        changes["steps"] = N if one_by_one else 3 if ascending else 4
    return replace(sampler, **changes)


def parts(name: str) -> Method:
    """The recipe's parts with a small task."""
    recipe = load(catalogue.recipes()[name])
    likelihood = recipe.likelihood
    return Method(
        Pairs(), shrunk(recipe.sampler), recipe.selector, likelihood, recipe.advantage, recipe.loss
    )


def policy(name: str) -> Any:
    """A random network of the recipe's family."""
    return network(family=load(catalogue.recipes()[name]).model.name)


def sizes(name: str, **changes):
    """Four groups; as many samples as a tree has leaves, or the recipe's pair."""
    recipe = load(catalogue.recipes()[name])
    leaves = getattr(recipe.sampler, "group_size", None)
    G = leaves or min(recipe.train.group_size, 4)
    return budget(**({"group_size": G, "micro_batch": 64, "passes": 2} | changes))


def trained(name, world=1, **changes):
    def work(accelerator):
        made = learner(policy(name), accelerator, lr=0.05)
        list(train(parts(name), sizes(name, **changes), made, seed=3, rounds=range(1)))
        return flat(made.policy)

    results = Ranks(world).run(work)
    assert all(torch.equal(found, results[0]) for found in results)
    return results[0]


@pytest.mark.parametrize("name", RECIPES)
def test_micro_batches_minibatch_order_and_processes_change_no_weight(name):
    weights = trained(name, minibatches=2)
    assert not torch.equal(weights, flat(policy(name))), "the method moves the weights"
    for split in ({"micro_batch": 5}, {"rollout_batch": 7}, {"world": 4}):
        again = trained(name, **{"minibatches": 2, **split})
        torch.testing.assert_close(again, weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", RECIPES)
def test_a_pass_uses_its_own_plan_and_random_plans_draw_fresh_masks(name):
    method = parts(name)
    made = learner(policy(name))
    passes = collect(method, sizes(name, passes=3), made, Meter(made.accelerator), 3, 0)
    again = [
        method.likelihood.plan(
            passes.rollout, passes.steps if method.likelihood.uses_steps else None,
            Key(3, 0, "views", p if method.likelihood.random else 0), 3,
        )
        for p in range(3)
    ]  # fmt: skip
    for views, plan in zip(passes.views, again, strict=True):
        assert torch.equal(views.hide_BKL, plan.hide_BKL)
    masks = [views.hide_BKL for views in passes.views]
    if method.likelihood.random:
        assert not torch.equal(masks[0], masks[1]) and not torch.equal(masks[1], masks[2])
    else:
        assert passes.views[0] is passes.views[1] is passes.views[2]


@pytest.mark.parametrize("name", RECIPES)
def test_the_first_ratio_of_a_round_is_1(name):
    made = learner(policy(name))
    rounds = train(parts(name), sizes(name, passes=1), made, seed=3, rounds=range(1))
    _, meter, _ = next(iter(rounds))
    row = meter.row()
    if "ratio" in row:
        assert row["ratio"] == pytest.approx(1.0, abs=1e-6)
        assert row["ratio_max"] == pytest.approx(1.0, abs=1e-6)
