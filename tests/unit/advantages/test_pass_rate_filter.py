"""Prompts outside the limits get nothing; how many of several are kept."""

from dataclasses import replace

import pytest
import torch
from torch import distributed

from dllmzoo.laws import inputs
from dllmzoo.zoo import ADVANTAGES
from tests.strategies import credit, played

Filter = ADVANTAGES.get("pass_rate_filter")
Mean = ADVANTAGES.get("group_relative")


def kept(advantage, reward, G=2, counted=None, round=0):
    """Which prompts have an advantage that is not 0."""
    counted_B = None if counted is None else torch.tensor(counted)
    found = credit(advantage, torch.tensor(reward), None, G, counted_B=counted_B, round=round)
    return (found.view(-1, G) != 0).any(1).nonzero()[:, 0].tolist()


def test_prompts_outside_the_limits_get_nothing_and_the_others_the_inner_advantage():
    # rates 0.5, 0.25 and 1 (four samples each)
    reward = [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    found = credit(Filter(inner="group_relative", low=0.3), torch.tensor(reward), None, 4)
    inner = credit(Mean(), torch.tensor(reward), None, 4)
    assert torch.equal(found[:4], inner[:4]) and not found[4:].any()


def test_the_limits_themselves_are_kept():
    # 1 of 5, 4 of 5, and rewards 0.6, 1 whose mean is 0.8 in float32
    reward = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert kept(Filter(), reward, G=5) == [0, 1]
    assert kept(Filter(), [0.6, 1.0]) == [0]
    assert kept(Filter(low=0.21, high=0.79), reward, G=5) == []


def test_an_answer_can_pass_from_a_reward_on():
    # shares of rewards >= 1: 1/2, 0, 1; means 0.75, 0.5, 1.5
    reward = [1.0, 0.5, 0.9, 0.1, 1.0, 2.0]
    assert kept(Filter(passed_from=1.0), reward) == [0]
    assert kept(Filter(), reward) == [0, 1]


def test_abstained_answers_are_out_of_the_rate():
    # 1, 0 of the counted ones: 0.5; with the third the rate would be 1/3
    assert kept(Filter(low=0.4), [1.0, 0.0, 0.0], G=3, counted=[True, True, False]) == [0]


def test_it_needs_what_the_inner_advantage_needs():
    stepwise = Filter(inner={"name": "stepwise_one_shot", "guesses": 3})
    assert stepwise.needs_previews and stepwise.per_step and stepwise.needs_group
    assert stepwise.guesses == 3 and not stepwise.needs_every_step
    assert Filter(inner="preview_gain").needs_every_step
    assert Filter(inner="tree_leave_one_out").needs_branches
    plain = Filter()
    assert not (plain.needs_previews or plain.per_step or plain.needs_branches)
    assert plain.guesses == 1 and type(plain.inner) is ADVANTAGES.get("z_score")
    assert not plain.compares_groups and Filter(keep=1).compares_groups
    assert Filter(inner={"name": "z_score", "scope": "batch"}).compares_groups


def test_of_several_prompts_some_are_kept_by_chance():
    reward = [0.0, 1.0] * 8
    found = [tuple(kept(Filter(keep=2, of=4), reward, round=round)) for round in range(40)]
    for each in found:
        assert sum(prompt < 4 for prompt in each) == 2 == sum(prompt >= 4 for prompt in each)
    assert {prompt for each in found for prompt in each} == set(range(8))
    assert len(set(found)) > 10
    assert found[3] == tuple(kept(Filter(keep=2, of=4), reward, round=3))


def test_prompts_whose_rewards_differ_come_first():
    # of four, prompt 2 alone has rewards that differ
    reward = [1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    own = OwnReward(Filter(keep=1, of=4, low=0.0, high=1.0))
    for round in range(5):
        assert own.kept(reward, round=round) == [2]
    # then those always solved, then those never solved
    assert own.of(3).kept(reward) == [0, 1, 2]
    assert own.of(2).kept(reward) == [0, 2]


class OwnReward:
    """A filter around an advantage that is 1 for every row, so that what is kept shows."""

    def __init__(self, advantage):
        self.advantage = advantage

    def of(self, keep):
        return OwnReward(replace(self.advantage, keep=keep))

    def kept(self, reward, round=0, rollout=None, G=2):
        rollout = (
            played([[0]] * len(reward), [[0]] * len(reward), group_size=G)
            if rollout is None
            else rollout
        )
        rewards = inputs.rewards(torch.tensor(reward))
        found = replace(self.advantage, inner=Ones())(rewards, None, None, rollout, round)
        return sorted(set(rollout.group_B[found[:, 0] != 0].tolist()))


class Ones:
    """An advantage of 1."""

    needs_previews = per_step = needs_group = False

    def __call__(self, rewards, previews, steps, rollout, round):
        return torch.ones(len(rewards.total_X), 1)


def test_of_equal_prompts_those_with_more_denoising_steps_come_first():
    # never solved: prompt 1 took 2 + 2 steps, prompts 0 and 2 took 1 + 2
    reveal = [[0, 0], [0, 1], [0, 1], [1, 0], [0, 1], [1, 1]]
    rollout = played([[0, 0]] * 6, reveal, group_size=2)
    own = OwnReward(Filter(keep=1, of=3, low=0.0))
    assert own.kept([0.0] * 6, rollout=rollout) == [1]
    assert own.of(2).kept([0.0] * 6, rollout=rollout) == [0, 1]


def test_only_prompts_within_the_limits_are_counted():
    # prompt 0 is always solved and out: the two others are kept
    reward = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    assert kept(Filter(keep=2, of=3), reward) == [1, 2]


def test_the_choice_is_that_of_all_processes(monkeypatch):
    reward = torch.tensor([0.0, 1.0] * 4)
    rollout = played([[0]] * 8, [[0]] * 8, group_size=2)
    advantage = Filter(keep=2, of=4)
    handed = []

    def catch(found, mine):
        handed.append(mine)
        for into in found:
            into.copy_(mine)

    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 1)
    monkeypatch.setattr(distributed, "all_gather", catch)
    whole = advantage(inputs.rewards(reward), None, None, rollout, 7)
    (facts,) = handed

    def all_gather(found, mine):
        for into, part in zip(found, facts.split(4), strict=True):
            into.copy_(part)

    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_gather", all_gather)
    halves = []
    for first in (0, 4):
        half = played([[0]] * 4, [[0]] * 4, group_size=2)
        half = replace(half, group_B=half.group_B + first // 2)
        rewards = inputs.rewards(reward[first : first + 4])
        halves.append(advantage(rewards, None, None, half, 7))
    assert torch.equal(torch.cat(halves), whole)


def test_limits_that_nothing_meets_are_refused():
    with pytest.raises(ValueError, match=r"low 0\.9 is above high 0\.8"):
        Filter(low=0.9)
    with pytest.raises(ValueError, match="keep 9 of 8 prompts: use keep <= of"):
        Filter(keep=9)
