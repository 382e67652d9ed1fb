"""Sampling with a copy of the policy in another precision."""

from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator

from dllmzoo.models._lora import add_lora
from dllmzoo.recipe import load
from dllmzoo.recipe.sections import Lora
from dllmzoo.training.loop import train
from dllmzoo.training.rollout_copy import RolloutCopy
from dllmzoo.training.setup import make_learner
from tests.runs import recipe
from tests.unit.training.small import budget, flat, learner, method, network


def rounds(dtype):
    mine = learner()
    if dtype is not None:
        mine = replace(mine, rollouts=RolloutCopy(mine.policy, dtype))
    seen = [each for _, _, each in train(method(), budget(), mine, seed=3, rounds=range(3))]
    return mine, seen


def test_a_copy_in_the_same_precision_changes_nothing():
    plain, seen = rounds(None)
    copied, seen_by_copy = rounds(torch.float64)
    assert torch.equal(flat(plain.policy), flat(copied.policy))
    for one, other in zip(seen, seen_by_copy, strict=True):
        assert torch.equal(one.rollout.tokens_BL, other.rollout.tokens_BL)
        assert torch.equal(one.old[0], other.old[0])


def test_the_copy_samples_in_its_precision_and_the_policy_scores_in_its_own():
    mine, seen = rounds(torch.bfloat16)
    assert all(each.rollout.logprob_BL.dtype == torch.float32 for each in seen)
    assert all(each.old[0].dtype == torch.float64 for each in seen)
    assert flat(mine.policy).dtype == torch.float64


def test_each_round_samples_with_what_the_last_one_trained():
    mine, _ = rounds(torch.bfloat16)
    before = flat(mine.rollouts.model).clone()  # as the third round sampled
    now = flat(mine.sampling_policy)
    assert torch.equal(now, flat(mine.policy).bfloat16())
    assert not torch.equal(now, before)


def test_adapters_are_taken_over_and_the_base_stays():
    policy = add_lora(network(), Lora(rank=2), 0)
    copied = RolloutCopy(policy, torch.float32)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if parameter.requires_grad:
                parameter.add_(1.0)
            else:
                assert "lora_" not in name
    tokens_BL = torch.tensor([[1, 2, 3]])
    made = copied.refreshed()(tokens_BL).logits
    torch.testing.assert_close(made, policy.eval()(tokens_BL).logits.float(), rtol=1e-3, atol=1e-3)
    assert not any(p.requires_grad for p in copied.refreshed().parameters())


@pytest.mark.parametrize(("dtype", "copied"), [("bfloat16", True), ("float32", False)])
def test_a_recipe_asks_for_it_by_precision(tmp_path, dtype, copied):
    settings = recipe(tmp_path)
    settings["train"] = settings["train"] | {"rollout_dtype": dtype}
    mine = make_learner(load(settings), Accelerator(cpu=True))
    assert (mine.rollouts is not None) == copied
    assert mine.sampling_policy.dtype == getattr(torch, dtype)
