"""Each law catches a component that breaks it; a law that nothing breaks says nothing."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from dllmzoo.laws import LAWS, Case, LawError, hold
from dllmzoo.records import Steps
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, SCHEDULES, SELECTORS
from tests.unit.laws.altered import Altered

BROKEN: dict[tuple[str, str], Any] = {}


# schedules

linear = SCHEDULES.get("linear")()
BROKEN["schedule", "ends"] = Altered(linear, mask_prob=lambda t: 0.5 + 0.5 * t)
BROKEN["schedule", "monotone"] = Altered(linear, mask_prob=lambda t: 4 * t * (1 - t))
BROKEN["schedule", "rate_is_the_derivative"] = Altered(linear, rate=lambda t: 2 * t)
BROKEN["schedule", "elementwise"] = Altered(linear, mask_prob=lambda t: t / t.max())
BROKEN["schedule", "commits_sum"] = Altered(linear, commits=lambda masked, steps: [1] * steps)


# selectors


@dataclass(frozen=True)
class BrokenSelector:
    how: str
    steps: int = 2

    @property
    def state_only(self):
        return self.how == "the whole trajectory"

    @property
    def unbiased(self):
        return self.how == "cut off"

    def num_selected(self, num_steps):
        return min(self.steps, num_steps)

    def __call__(self, rollout, key):
        found = SELECTORS.get("entropy")(steps=self.steps)(rollout, key)
        start_BK, stop_BK, weight_BK = found.start_BK, found.stop_BK, found.weight_BK
        if self.how == "outside":
            return Steps(start_BK - 1, stop_BK, weight_BK)
        if self.how in ("the whole trajectory", "cut off"):
            return found
        if self.how == "all weights 1":
            return Steps(start_BK, stop_BK, torch.ones_like(weight_BK))
        if self.how == "all weights 0":
            return Steps(start_BK, stop_BK, 0 * weight_BK)
        if self.how == "twice":
            return Steps(*(torch.cat([t, t], 1) for t in (start_BK, stop_BK, weight_BK)))
        if self.how == "backwards":
            return Steps(start_BK.flip(1), stop_BK.flip(1), weight_BK.flip(1))
        if self.how == "half weights":
            return Steps(start_BK, stop_BK, 0.5 * weight_BK)
        if self.how == "by row number":
            row_B1 = 1.0 + torch.arange(len(weight_BK)).unsqueeze(1)
            return Steps(start_BK, stop_BK, weight_BK * row_B1)
        if self.how == "global":
            return Steps(start_BK, stop_BK, weight_BK * torch.rand(weight_BK.shape))
        # the larger step of equal entropies first
        T = rollout.num_steps
        turned = replace(rollout, reveal_BL=torch.where(
            rollout.reveal_BL < 0, -1, T - 1 - rollout.reveal_BL
        ))  # fmt: skip
        late = SELECTORS.get("entropy")(steps=self.steps)(turned, key)
        used = (late.weight_BK > 0) | (late.start_BK < T)
        start_BK = torch.where(used, T - 1 - late.start_BK, T)
        return Steps(start_BK, torch.where(used, start_BK + 1, T), late.weight_BK)


for law, how in {
    "spans_inside": "outside",
    "empty_spans_weigh_nothing": "all weights 1",
    "something_is_chosen": "all weights 0",
    "distinct": "twice",
    "first_choice_first": "backwards",
    "all_when_k_is_t": "half weights",
    "batch_invariant": "by row number",
    "ties_to_the_smaller_step": "late",
    "keyed_randomness": "global",
    "cost_is_known": "twice",
    "states_decide": "the whole trajectory",
    "weights_are_unbiased": "cut off",
}.items():
    BROKEN["selector", law] = BrokenSelector(how)
BROKEN["selector", "shared_steps_count_once"] = Altered(SELECTORS.get("all")(), needs_branches=True)


# likelihoods

elbo = Altered(LIKELIHOODS.get("elbo")(), exempt={})  # its defaults need no exemption
mean_field, block_elbo = (LIKELIHOODS.get(name)() for name in ("mean_field", "block_elbo"))
trajectory, sure = LIKELIHOODS.get("denoising_steps")(), LIKELIHOODS.get("confident_steps")()


def replanned(part, change):
    """A likelihood whose views are changed by `change(views, rollout)`."""

    def plan(rollout, steps, key, num_passes):
        return change(part.plan(rollout, steps, key, num_passes), rollout)

    return Altered(part, plan=plan)


def repooled(part, change):
    """A likelihood whose scores and ratios are changed by `change(value_BU, views)`."""

    def pool(logprob_BKL, views, rollout, advantage_BU):
        found = part.pool(logprob_BKL, views, rollout, advantage_BU)
        value_BU = change(found.score_BU, views)
        return replace(found, score_BU=value_BU, ratio_BU=value_BU)

    return Altered(part, pool=pool)


def by_position(rollout, steps, key, num_passes):
    """Rows draw by their place in the batch, not by their sample number."""
    numbered = replace(rollout, sample_B=torch.arange(len(rollout.sample_B)))
    return elbo.plan(numbered, steps, key, num_passes)


def by_column(rollout, steps, key, num_passes):
    """Noise is drawn for columns, so padding moves it."""
    views = mean_field.plan(rollout, steps, key, num_passes)
    noise_BL = key.uniform(rollout.sample_B, rollout.tokens_BL.shape[1]) < 0.5
    return replace(views, hide_BKL=views.hide_BKL | (noise_BL & rollout.attend_BL).unsqueeze(1))


def times_advantage(logprob_BKL, views, rollout, advantage_BU):
    found = elbo.pool(logprob_BKL, views, rollout, advantage_BU)
    return replace(found, score_BU=found.score_BU * (1 + advantage_BU.abs()))


def from_global_generator(rollout, steps, key, num_passes):
    torch.rand(1)
    return elbo.plan(rollout, steps, key, num_passes)


BROKEN["likelihood", "well_formed"] = replanned(
    mean_field, lambda views, rollout: replace(views, hide_BKL=torch.zeros_like(views.hide_BKL))
)
BROKEN["likelihood", "total_nats"] = repooled(elbo, lambda total, v: total / v.size_BU)
BROKEN["likelihood", "not_positive"] = repooled(elbo, lambda total, v: -total)
BROKEN["likelihood", "batch_invariant"] = Altered(elbo, plan=by_position)
BROKEN["likelihood", "padding_invariant"] = Altered(mean_field, plan=by_column)
BROKEN["likelihood", "passes"] = Altered(elbo, random=False)
BROKEN["likelihood", "keyed_randomness"] = Altered(elbo, plan=from_global_generator)
BROKEN["likelihood", "gradient_only_where_scored"] = repooled(elbo, lambda total, v: total.detach())
BROKEN["likelihood", "first_ratio_is_one"] = repooled(
    elbo, lambda total, v: total - torch.rand(total.shape)
)
BROKEN["likelihood", "each_slot_once"] = replanned(
    trajectory, lambda views, rollout: replace(views, score_BKL=views.hide_BKL)
)
BROKEN["likelihood", "equals_enumeration"] = replanned(
    trajectory, lambda views, rollout: replace(views, temperature=2.0)
)
BROKEN["likelihood", "unbiased"] = repooled(elbo, lambda total, v: 1.5 * total)
BROKEN["likelihood", "only_log_probs_carry_gradient"] = Altered(elbo, pool=times_advantage)
BROKEN["likelihood", "given_slots_stand"] = replanned(
    mean_field, lambda views, rollout: replace(views, hide_BKL=rollout.attend_BL.unsqueeze(1))
)
BROKEN["likelihood", "temperature"] = replanned(
    elbo, lambda views, rollout: replace(views, temperature=3.0)
)
BROKEN["likelihood", "weights_give_the_ratio"] = repooled(elbo, lambda total, v: 2 * total)
BROKEN["likelihood", "refine_only_drops"] = Altered(
    sure, refine=lambda views, old: replace(views, score_BKL=views.hide_BKL)
)
BROKEN["likelihood", "refine_row_by_row"] = Altered(
    sure, refine=lambda views, old: replace(views, weight_BU=views.weight_BU * old.exp().mean())
)
BROKEN["likelihood", "parents_share_a_state"] = replanned(
    trajectory, lambda views, rollout: replace(views, parent_BU=views.column_BU)
)
BROKEN["likelihood", "one_pass_is_one_for_each_block"] = replanned(
    block_elbo, lambda views, rollout: replace(views, layout="full")
)


# advantages


@dataclass(frozen=True)
class BrokenAdvantage:
    how: str
    needs_previews: bool = False
    per_step: bool = False
    weight: float = 0.0
    needs_branches: bool = False

    def __call__(self, rewards, previews, steps, rollout, round):
        total_B = rewards.total_X
        good = ADVANTAGES.get("group_relative")()(rewards, None, steps, rollout, round)
        if self.how == "flat":
            return good.squeeze(1)
        if self.how == "raw":
            return total_B.unsqueeze(1)
        if self.how == "first row":
            return good + torch.eye(len(good))[:, :1]
        if self.how == "whole batch":
            return good + total_B.mean()
        if self.how == "square":
            return good * good.abs()
        if self.how == "columns of its own":
            return good.expand(-1, steps.start_BK.shape[1])
        if self.how == "all counted":
            counted = replace(rewards, counted_X=torch.ones_like(rewards.counted_X))
            return ADVANTAGES.get("group_relative")()(counted, None, steps, rollout, round)
        return good + 0.1 * previews.total_X.view(len(total_B), -1)


for law, how in {
    "columns": "flat",
    "equal_rewards_give_zero": "raw",
    "permuting_a_group_permutes": "first row",
    "groups_are_independent": "whole batch",
    "groups_sum_to_zero": "raw",
    "shift": "raw",
    "scale": "square",
    "abstained_rows_are_nothing": "all counted",
}.items():
    BROKEN["advantage", law] = BrokenAdvantage(how)
BROKEN["advantage", "zero_weight_is_group_relative"] = BrokenAdvantage(
    "previews", needs_previews=True, per_step=True
)
BROKEN["advantage", "sharers_share_credit"] = BrokenAdvantage(
    "columns of its own", per_step=True, needs_branches=True
)


KINDS = ("schedule", "selector", "likelihood", "advantage")


@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in KINDS for name in LAWS[k]])
def test_a_broken_part_is_caught(kind, name):
    part, law = BROKEN[kind, name], LAWS[kind][name]
    with pytest.raises(LawError, match=f"breaks the law '{name}'"):
        for seed in range(60):
            hold(part, law, Case(seed, seed % 7))


def test_every_broken_part_belongs_to_a_law():
    assert set(BROKEN) == {(kind, name) for kind in KINDS for name in LAWS[kind]}
