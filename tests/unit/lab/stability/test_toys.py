from dataclasses import replace

import pytest
import torch

from dllmzoo.lab.stability import tables
from dllmzoo.lab.stability.arms import CLAIMED
from dllmzoo.lab.stability.toys import BANDITS, Bandit, one_update, play, play_all, weights


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def test_weights_are_those_of_the_four_objectives():
    log_ratio, advantage = row(2.0, 10.0, 0.0, -2.0).log1p().nan_to_num(0.0), row(1, -1, 1, -1)
    # ratios 3, 11, 1 and (log(-1) made 0) 1; capped at 6 they are 3, 6, 1, 1, in sum 11
    assert weights("stable_drl", log_ratio, advantage).tolist()[0] == pytest.approx(
        [3 / 11, -6 / 11, 1 / 11, -1 / 11]
    )
    assert weights("clip_only", log_ratio, advantage).tolist()[0] == pytest.approx(
        [3 / 4, -6 / 4, 1 / 4, -1 / 4]
    )
    assert weights("sn_only", log_ratio, advantage).tolist()[0] == pytest.approx(
        [3 / 16, -11 / 16, 1 / 16, -1 / 16]
    )
    # GRPO holds back the good answer above 1.2, and lets the bad one through: the open corner
    assert weights("grpo", log_ratio, advantage).tolist()[0] == pytest.approx(
        [0, -11 / 4, 1 / 4, -1 / 4]
    )


def test_groups_have_weights_of_their_own():
    both = torch.cat([row(0.0, 1.0), row(3.0, -1.0)])
    advantage = torch.cat([row(1.0, -1.0), row(-1.0, 1.0)])
    for arm in CLAIMED:
        each = [weights(arm, both[i : i + 1], advantage[i : i + 1]) for i in range(2)]
        assert torch.equal(weights(arm, both, advantage), torch.cat(each))


def test_one_noisy_sample_makes_the_update_of_grpo_longer_than_any_gradient():
    found = {arm: one_update(arm, 3.0, groups=500)["largest"] for arm in CLAIMED}
    assert found["grpo"] > 100
    assert found["stable_drl"] < found["sn_only"] <= 1 + 1e-9
    assert found["clip_only"] < 6


def test_noise_that_a_group_shares_moves_the_length_of_the_update_without_self_normalisation():
    found = {arm: one_update(arm, 0.3, 2.0, groups=500)["scale_std"] for arm in CLAIMED}
    assert found["clip_only"] > 1
    assert found["stable_drl"] < 1e-6
    assert found["sn_only"] < 1e-6


def test_without_noise_every_arm_learns_alike():
    ends = [play(arm, Bandit(policies=50, rounds=40))["reward"] for arm in CLAIMED]
    assert ends == pytest.approx([ends[0]] * 4, abs=0.01)
    assert ends[0] > 0.8


@pytest.mark.parametrize(
    ("noise", "half"), [("noise of each sample", "sn_only"), ("noise of the group", "clip_only")]
)
def test_each_half_alone_is_behind_the_whole_under_one_kind_of_noise(noise, half):
    bandit = replace(BANDITS[noise], rounds=30)
    whole, alone, grpo = (play(arm, bandit) for arm in ("stable_drl", half, "grpo"))
    assert alone["reward_high"] < whole["reward_low"]
    assert grpo["reward_high"] < alone["reward_low"]


def test_the_same_seed_plays_the_same_game():
    bandit = Bandit(noise=1.0, rounds=3, policies=4)
    assert play("grpo", bandit) == play("grpo", bandit)


def test_toys_fill_tables(monkeypatch):
    monkeypatch.setattr("dllmzoo.lab.stability.toys.UPDATES", ((1.0, 0.0),))
    monkeypatch.setattr(
        "dllmzoo.lab.stability.toys.BANDITS", {"short": Bandit(rounds=2, policies=3)}
    )
    *_, updates, bandits = tables({"cells": [], "toys": play_all()})
    for headers, lines, _ in (updates, bandits):
        assert len(lines) == 4
        assert all(len(line) == len(headers) for line in lines)
