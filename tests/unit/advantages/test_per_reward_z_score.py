"""Z-scores of the components of a reward, by hand."""

import math

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.records import ABSTAIN, VALUE, Rewards
from dllmzoo.zoo import ADVANTAGES
from tests.strategies import played

PerReward = ADVANTAGES.get("per_reward_z_score")
UNIT = 1 / (math.sqrt(2) + 2e-4)
"""Z-score of the larger of two values one apart: 0.5 / (0.7071 + 1e-4)."""


def of(advantage, part, G=2, outcome=None, counted=None):
    part_XC = torch.tensor(part)
    valued_XC = torch.ones(part_XC.shape) if outcome is None else torch.tensor(outcome)
    outcome_XC = torch.where(valued_XC > 0, VALUE, ABSTAIN).to(torch.int8)
    counted_X = torch.ones(len(part)) > 0 if counted is None else torch.tensor(counted)
    rewards = Rewards(part_XC.sum(1), part_XC, ("cells", "format"), counted_X, outcome_XC)
    rollout = played([[1]] * len(part), [[0]] * len(part), group_size=G)
    found = advantage(rewards, None, None, rollout, 0)
    assert found.shape == (len(part), 1) and found.dtype == torch.float32
    return found.flatten().tolist()


def test_components_count_alike_whatever_their_size():
    # cells 0, 1 and format 30, 20: z-scores -+ and +- of one size cancel to nearly nothing
    large = 5 / (50**0.5 + 1e-4)
    found = of(PerReward(), [[0.0, 30.0], [1.0, 20.0]])
    assert found == pytest.approx([large - UNIT, UNIT - large])
    assert found != [0.0, 0.0]


def test_answers_of_equal_totals_stay_apart():
    # totals 1, 1, 0: cells 1, 0, 0 and format 0, 1, 0 have the same z-scores, in two places
    gap = 1 / 3 / (math.sqrt(1 / 3) + 1e-4)
    found = of(PerReward(weights={"format": 0.5}), [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], G=3)
    assert found == pytest.approx([2 * gap - 0.5 * gap, -gap + gap, -1.5 * gap])


def test_weights_multiply_z_scores():
    assert of(PerReward(weights={"format": -2.0}), [[0.0, 0.0], [1.0, 1.0]]) == pytest.approx(
        [UNIT, -UNIT]
    )
    assert of(PerReward(weights={"format": 0.0}), [[0.0, 5.0], [1.0, 0.0]]) == pytest.approx(
        [-UNIT, UNIT]
    )


def test_a_component_without_a_value_is_out_of_its_own_statistics_only():
    # format of row 2 abstained: rows 0 and 1 have 1 and 0; cells 0, 0, 3 with deviation sqrt 3
    scale = 1 / (math.sqrt(3) + 1e-4)
    found = of(
        PerReward(),
        [[0.0, 1.0], [0.0, 0.0], [3.0, 0.0]],
        G=3,
        outcome=[[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]],
    )
    assert found == pytest.approx([-scale + UNIT, -scale - UNIT, 2 * scale])


def test_a_component_with_one_value_adds_nothing():
    found = of(PerReward(), [[0.0, 7.0], [1.0, 0.0]], outcome=[[1.0, 1.0], [1.0, 0.0]])
    assert found == pytest.approx([-UNIT, UNIT])


def test_a_row_that_does_not_count_gets_nothing():
    part = [[0.0, 0.0], [9.0, 9.0], [1.0, 0.0]]
    found = of(PerReward(), part, G=3, counted=[True, False, True])
    assert found == pytest.approx([-UNIT, 0.0, UNIT])


def test_a_weight_of_no_component_is_refused():
    with pytest.raises(UsageError, match=r"weighs colour.*components .* are: cells, format"):
        of(PerReward(weights={"colour": 1.0}), [[0.0, 0.0], [1.0, 0.0]])
