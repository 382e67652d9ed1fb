"""Metrics of a round: means over what counts, over all processes."""

import math

import pytest
import torch
from accelerate import Accelerator

from dllmzoo.protocols import Ratio
from dllmzoo.records import ABSTAIN, ERROR, TIMEOUT, VALUE, Rewards
from dllmzoo.training.meter import Meter
from tests.strategies import chosen, played, units
from tests.unit.training.small import Ranks


@pytest.fixture
def meter():
    return Meter(Accelerator(cpu=True))


def rewards(values, outcomes):
    """One component `c`; whatever is no VALUE does not count."""
    outcome_XC = torch.tensor(outcomes, dtype=torch.int8).unsqueeze(1)
    counted_X = outcome_XC[:, 0] == VALUE
    total_X = torch.tensor(values) * counted_X
    return Rewards(total_X, total_X.unsqueeze(1), ("c",), counted_X, outcome_XC)


def test_means_maxima_seconds_and_ratios(meter):
    meter.add("loss", 3.0, 2)
    meter.add("loss", 1.0, 2)
    meter.add("nothing", 0.0, 0)
    meter.add_tensor("kl", torch.tensor([1.0, 5.0, 9.0]), torch.tensor([True, True, False]))
    meter.top("worst", 2.0)
    meter.top("worst", 1.0)
    meter.ratios({"solved_rate": Ratio([1, 0, 1], [1, 1, 1]), "none": Ratio([], [])}, "rollout")
    with meter.time("score"):
        pass
    row = meter.row()
    assert row["loss"] == 1.0 and row["nothing"] is None and row["kl"] == 3.0
    assert row["worst"] == 2.0 and row["rollout/solved_rate"] == pytest.approx(2 / 3)
    assert row["rollout/none"] is None and 0 <= row["time/score"] < 1


def test_rewards_by_hand(meter):
    # counted: 1, 0, 0.5 -> mean .5, mean square 1.25/3, deviation sqrt(.41667 - .25)
    # groups (1, 0), (.5, -): the second has one counted reward, which is equal to itself
    rollout = played([[1, 2]] * 4, [[0, 1]] * 4, group_size=2)
    found = rewards([1.0, 0.0, 0.5, 7.0], [VALUE, VALUE, VALUE, ERROR])
    meter.experience(rollout, None, found, None, torch.tensor([[0.5], [-0.5], [0.0], [0.0]]))
    row = meter.row()
    assert row["reward"] == 0.5 and row["reward/c"] == 0.5
    assert row["reward_std"] == pytest.approx(math.sqrt(1.25 / 3 - 0.25))
    assert row["reward_errors/c"] == 1 and row["reward_abstained/c"] == 0
    assert row["reward_timeouts/c"] == 0
    assert row["reward_zero_std_share"] == 0.5 and row["advantage_abs"] == 0.25
    assert "preview_reward" not in row and "selected_step" not in row
    # 8 slots committed by 4 rows x 2 steps, and that many model rows
    assert row["tokens_per_forward"] == 1.0 and row["answer_length"] == 2.0


@pytest.mark.parametrize("outcome", [ABSTAIN, ERROR, TIMEOUT])
def test_a_round_without_any_reward_has_null_for_a_mean(meter, outcome):
    rollout = played([[1, 2]] * 4, [[0, 1]] * 4, group_size=2)
    found = rewards([1.0] * 4, [outcome] * 4)
    meter.experience(rollout, None, found, None, torch.zeros(4, 1))
    row = meter.row()
    assert row["reward"] is None and row["reward/c"] is None and "reward_std" not in row
    assert row["reward_zero_std_share"] == 1.0 and "reward_square" not in row


def test_previews_count_where_the_step_is_used_and_their_reward_has_a_value(meter):
    # guesses (k n), two a step: step 1 of the second row is unused; one guess abstained
    rollout = played([[1, 2]] * 2, [[0, 1], [0, 0]], group_size=2)
    steps = chosen([[1, 0], [0, 1]], [[1.0, 1.0], [1.0, 0.0]])
    kinds = [VALUE] * 8
    kinds[1] = ABSTAIN
    previews = rewards([1.0, 9.0, 0.0, 0.0, 1.0, 0.0, 5.0, 5.0], kinds)
    finals = rewards([1.0, 0.0], [VALUE, VALUE])
    meter.experience(rollout, steps, finals, previews, torch.zeros(2, 2))
    row = meter.row()
    assert row["preview_reward"] == pytest.approx((1 + 0 + 0 + 1 + 0) / 5)
    assert row["selected_step"] == pytest.approx((1 + 0 + 0) / 3)


def test_metrics_of_a_loss_are_means_over_live_units(meter):
    live_BU = torch.tensor([[True, False], [True, True]])
    facts = units(2, 2, live_BU=live_BU)
    ratio_BU = torch.tensor([[1.0, 99.0], [2.0, 0.0]])
    meter.update(torch.tensor(0.25), 2.0, {"ratio": ratio_BU, "kl": torch.ones(2, 1)}, facts)
    meter.update(torch.tensor(0.75), 4.0, {"ratio": ratio_BU, "kl": torch.ones(2, 1)}, facts)
    row = meter.row()
    assert row["ratio"] == 1.0 and row["ratio_max"] == 2.0 and row["kl"] == 1.0
    assert row["loss"] == 0.5 and row["grad_norm"] == 3.0 and row["grad_norm_max"] == 4.0


def test_processes_see_one_row():
    def work(accelerator):
        meter = Meter(accelerator)
        rank = accelerator.process_index
        rollout = played([[1, 2]] * 2, [[0, 1]] * 2, group_size=2)
        found = rewards([float(rank), float(rank)], [VALUE, ERROR if rank else VALUE])
        meter.experience(rollout, None, found, None, torch.full((2, 1), float(rank)))
        ratio = torch.full((2, 1), 1.0 + rank)
        meter.update(torch.tensor(0.5), 3.0, {"ratio": ratio}, units(2))
        return meter.row()

    rows = Ranks(2).run(work)
    assert rows[0] == rows[1]
    row = rows[0]
    # rewards 0, 0, 1; one error on the second process; each group flat
    assert row["reward"] == pytest.approx(1 / 3) and row["reward_errors/c"] == 1
    assert row["reward_zero_std_share"] == 1.0 and row["advantage_abs"] == 0.5
    # the loss is the sum over processes, the gradient norm the same on both
    assert row["loss"] == 1.0 and row["grad_norm"] == 3.0
    assert row["ratio"] == 1.5 and row["ratio_max"] == 2.0


def test_a_process_without_a_live_unit_waits_for_nobody():
    def work(accelerator, dead):
        meter = Meter(accelerator)
        live_BU = torch.full((2, 1), accelerator.process_index not in dead)
        ratio_BU = torch.full((2, 1), 2.0)
        meter.update(torch.tensor(0.5), 3.0, {"ratio": ratio_BU}, units(2, live_BU=live_BU))
        return meter.row()

    one = Ranks(2).run(lambda accelerator: work(accelerator, dead=(1,)))
    assert one[0] == one[1] and one[0]["ratio_max"] == 2.0
    none = Ranks(2).run(lambda accelerator: work(accelerator, dead=(0, 1)))
    assert none[0] == none[1] and none[0]["ratio_max"] is None and none[0]["ratio_q50"] is None
