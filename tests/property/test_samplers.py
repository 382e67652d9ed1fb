"""Laws of every registered sampler; a new one is tested the moment its file exists."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings

from dllmzoo.laws import LAWS, Case, check_sampler, hold, samplers
from dllmzoo.laws.models import tiny
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.samplers._blocks import plan_steps
from dllmzoo.zoo import MODELS, SAMPLERS, SCHEDULES
from tests.strategies import cases


@cache
def report(name):
    return check_sampler(SAMPLERS.get(name))


@pytest.mark.parametrize("law", LAWS["sampler"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", SAMPLERS.names())
@settings(max_examples=15)
@given(case=cases())
def test_every_sampler_obeys_the_laws(name, law, case):
    hold(SAMPLERS.get(name), law, case)


@pytest.mark.parametrize("name", SAMPLERS.names())
def test_exemptions_are_real_and_nothing_is_passed_over(name):
    named = {key.partition(" if ")[0] for key in report(name).exempt}
    assert {*report(name).held, *report(name).silent, *named} == set(LAWS["sampler"])
    assert report(name).held


def test_no_law_is_silent_about_every_sampler():
    assert {law for name in SAMPLERS.names() for law in report(name).held} == set(LAWS["sampler"])


@pytest.mark.parametrize("law", LAWS["sampler"].values(), ids=lambda law: law.name)
@pytest.mark.parametrize("name", SAMPLERS.names())
def test_the_laws_hold_with_a_tiny_model_of_a_real_family(name, law, monkeypatch):
    blocks = getattr(SAMPLERS.get(name), "needs_blocks", False)
    network = tiny(MODELS.get("sdar" if blocks else "llada"), Case(2))
    monkeypatch.setattr(samplers, "policy_for", lambda sampler, case: network)
    for seed in range(4):
        hold(SAMPLERS.get(name), law, Case(seed, 4))


@pytest.mark.parametrize("name", SAMPLERS.names())
def test_the_default_construction_samples(name):
    sampler, case = SAMPLERS.get(name)(), Case(0, 0)
    policy = samplers.policy_for(sampler, case)
    prompts = samplers.prompts_for(sampler, case, policy)
    rollout = sampler(policy, prompts, case.key("sample"))
    slots = int((rollout.answer_BL[:, -sampler.answer_length :]).sum(1).min())
    assert slots == sampler.answer_length or sampler.given == "blanks"


@settings(max_examples=40)
@given(case=cases())
def test_running_confidence_keeps_the_mask_count_on_schedule(case):
    """At every step as many masks as the schedule wants, and one last filling of each slot."""
    N, block = case.integer("tokens", 1, 9), case.integer("block", 1, 9)
    block = min(block, N)
    steps = -(-N // block) + case.integer("steps", 0, 9)
    commits = case.among("commits", SCHEDULES.names())
    sampler = SAMPLERS.get("running_confidence")(
        answer_length=N, block_length=block, steps=steps, commits=commits,
        temperature=case.among("temperature", (0.0, 0.7, 1.0)),
    )  # fmt: skip
    rollout, _, _ = samplers.sample(sampler, case)
    counts = torch.tensor([count for _, count in plan_steps(N, block, steps, sampler.commits)])
    masked_T = N - counts.cumsum(0) + counts  # before each step
    assert (rollout.hidden_BTN.sum(2) == masked_T).all()
    reveal_BN = rollout.reveal_BL[:, -N:]
    assert (reveal_BN >= 0).all() and (counts[reveal_BN] > 0).all()
    late_BTN = torch.arange(steps).view(1, -1, 1) > reveal_BN.unsqueeze(1)
    assert not (rollout.hidden_BTN & late_BTN).any()  # nothing is masked after its last filling
    assert rollout.hidden_BTN.gather(1, reveal_BN.unsqueeze(1)).all()
    answer_BN = rollout.tokens_BL[:, -N:]
    assert torch.equal(rollout.draft_BTN.gather(1, reveal_BN.unsqueeze(1)).squeeze(1), answer_BN)


@settings(max_examples=25)
@given(case=cases())
def test_a_tree_with_shared_weights_is_each_edge_once(case):
    """Weights 1 / (rows that share an edge) give the gradient of scoring each edge once."""
    branch = case.among("branch", ((2, 2), (3,), (2, 1, 2), (1, 3)))
    N = case.integer("tokens", len(branch), 6)
    sampler = SAMPLERS.get("tree")(answer_length=N, branch=branch)
    policy = ToyDenoiser(case.seed, scale=0.7, dtype=torch.float64)
    prompts = samplers.prompts_for(sampler, case, policy)
    rollout = sampler(policy, prompts, case.key("sample"))

    def edge(rows, start, stop):
        """Total log-prob of what some rows commit in a span, from the state before it."""
        hide_BL = rollout.hidden_before(torch.full((len(rollout.tokens_BL), 1), start))[:, 0]
        tokens_BL = rollout.tokens_BL.masked_fill(hide_BL, policy.mask_id)[rows]
        logprob_BLV = policy(tokens_BL, rollout.attend_BL[rows]).logits.log_softmax(-1)
        logprob_BL = logprob_BLV.gather(2, rollout.tokens_BL[rows].unsqueeze(2)).squeeze(2)
        now_BL = (rollout.reveal_BL >= start) & (rollout.reveal_BL < stop)
        return torch.where(now_BL[rows], logprob_BL, 0).sum(1)

    weighted, once = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for level in range(len(branch)):
        start, stop = N * level // len(branch), N * (level + 1) // len(branch)
        number_B = rollout.branch_BT[:, start]
        share_B = (number_B.unsqueeze(1) == number_B).sum(1).double()
        worth_B = 1 + number_B.double().sin()  # anything that belongs to the edge
        weighted = (
            weighted + (worth_B * edge(torch.arange(len(number_B)), start, stop) / share_B).sum()
        )
        first = torch.tensor([int((number_B == n).nonzero()[0]) for n in number_B.unique()])
        once = once + (worth_B[first] * edge(first, start, stop)).sum()
    torch.testing.assert_close(weighted, once, atol=1e-10, rtol=1e-10)
    for found, expected in zip(
        torch.autograd.grad(weighted, list(policy.parameters())),
        torch.autograd.grad(once, list(policy.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-10)


@settings(max_examples=15)
@given(case=cases())
def test_children_of_a_branch_differ_by_noise_alone(case):
    """Greedy trees have one leaf, whatever their branches."""
    sampler = SAMPLERS.get("tree")(
        answer_length=case.integer("tokens", 2, 6), branch=(2, 3), temperature=0.0
    )
    rollout, _, _ = samplers.sample(sampler, case)
    for group in rollout.group_B.unique().tolist():
        assert len(rollout.tokens_BL[rollout.group_B == group].unique(dim=0)) == 1
