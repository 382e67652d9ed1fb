"""Answers that grow from one tree: each edge is scored once, whoever shares it."""

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings

from dllmzoo.branches import edge_starts, first_sharers, num_sharers
from dllmzoo.laws import Case, inputs, toy, trees
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.laws.selectors import busy_steps, step_weights
from dllmzoo.records import Rollout, Steps, Units
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SAMPLERS, SELECTORS
from tests.property.enumerated import KEY
from tests.strategies import cases

Edges = SELECTORS.get("edges")
TreeLoo = ADVANTAGES.get("tree_leave_one_out")


def two_words(case: Case) -> tuple[toy.TableDenoiser, Rollout]:
    """A random tree of answers over the two tokens of a table, and the table."""
    rollout = trees.rollout(case)
    policy = toy.TableDenoiser(int(rollout.answer_BL[0].sum()), case.seed)
    return policy, replace(rollout, tokens_BL=rollout.tokens_BL % 2)


def gradient(policy, rollout, steps, advantage_BA, unit, loss) -> torch.Tensor:
    """Gradient of a loss in the table."""
    likelihood = LIKELIHOODS.get("denoising_steps")(unit=unit)
    views = likelihood.plan(rollout, steps, KEY, 1)
    advantage_BU = views.credit(advantage_BA)
    logprob_BKL = toy.logprobs(policy, rollout, views)
    new = likelihood.pool(logprob_BKL, views, rollout, advantage_BU)
    old = likelihood.pool(logprob_BKL.detach() - 0.1, views, rollout, advantage_BU)
    facts = Units.of(views, rollout, advantage_BU=advantage_BU)
    scalar, _ = LOSSES.get(loss)(kl="none", normaliser="group")(new, old, None, advantage_BU, facts)
    return torch.autograd.grad(scalar, policy.table)[0]


@pytest.mark.parametrize("loss", ["policy_gradient", "clipped_surrogate"])
@pytest.mark.parametrize("unit", ["step", "slot"])
@settings(max_examples=15)
@given(case=cases())
def test_edges_scored_once_give_the_gradient_of_all_rows_weighed_by_their_sharers(unit, loss, case):
    policy, rollout = two_words(case)
    once = Edges()(rollout, KEY)
    start_BK = once.start_BK.clamp(max=rollout.num_steps - 1)
    sharers_BK = num_sharers(first_sharers(rollout)).gather(1, start_BK)
    assume(((sharers_BK & (sharers_BK - 1)) == 0).all())  # float32 holds 1/2 and 1/4, not 1/3
    shared = Steps(once.start_BK, once.stop_BK, (once.start_BK < once.stop_BK) / sharers_BK)
    reward_B = case.normal("reward", len(sharers_BK))
    advantage_BA = TreeLoo()(inputs.rewards(reward_B), None, once, rollout, 0)
    found = [gradient(policy, rollout, s, advantage_BA, unit, loss) for s in (once, shared)]
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-10)


@given(case=cases())
def test_numbers_of_branches_do_not_matter(case):
    rollout = trees.rollout(case)
    sharer_BT = first_sharers(rollout)
    other_BT = 3 * sharer_BT + torch.arange(rollout.num_steps) % 2
    renumbered = replace(rollout, branch_BT=other_BT)
    assert torch.equal(first_sharers(renumbered), sharer_BT)
    # sharing only ever ends: who shares a step shares all steps before it
    assert (num_sharers(sharer_BT).diff(dim=1) <= 0).all()
    assert edge_starts(sharer_BT)[:, 0].all()


@given(case=cases())
def test_the_rows_of_a_tree_agree_where_they_share(case):
    rollout = trees.rollout(case)
    sharer_BT = first_sharers(rollout)
    state_BTL = rollout.hidden_before(torch.arange(rollout.num_steps).expand_as(sharer_BT))
    tokens_BTL = rollout.tokens_BL.unsqueeze(1).masked_fill(state_BTL, -1)
    step_T = torch.arange(rollout.num_steps)
    assert torch.equal(tokens_BTL[sharer_BT, step_T], tokens_BTL)
    assert torch.equal(rollout.block_entropy_BT[sharer_BT, step_T], rollout.block_entropy_BT)


@pytest.mark.parametrize("branch", [(2,), (2, 2), (3, 1, 2), (1, 2)])
def test_the_edges_of_sampled_trees_cover_every_shared_step_once(branch):
    sampler = SAMPLERS.get("tree")(answer_length=6, steps=6, branch=branch)
    prompts = inputs.prompts(Case(4), samples=sampler.group_size)
    rollout = sampler(ToyDenoiser(3), prompts, Case(4).key("sample"))
    steps, sharer_BT = Edges()(rollout, KEY), first_sharers(rollout)
    weight_BT = step_weights(steps, rollout.num_steps)
    assert torch.equal(weight_BT > 0, sharer_BT == torch.arange(len(sharer_BT)).unsqueeze(1))
    assert busy_steps(rollout).all() and weight_BT.max() == 1
    levels = sum(children > 1 for children in branch) + (branch[0] == 1)
    assert steps.start_BK.shape[1] == levels
    advantage_BA = TreeLoo()(
        inputs.rewards(torch.arange(len(sharer_BT)).float()), None, steps, rollout, 0
    )
    assert advantage_BA.shape == steps.start_BK.shape
