"""Each law catches a component that breaks it; a law that nothing breaks says nothing."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from dllmzoo.laws import LAWS, Case, LawError, hold
from dllmzoo.laws.models import tiny
from dllmzoo.laws.network import ToyDenoiser, ToyOutput
from dllmzoo.records import Key, Units
from dllmzoo.zoo import MODELS, SAMPLERS, TASKS
from tests.unit.laws.altered import Altered

BROKEN: dict[tuple[str, str], Any] = {}


# losses


@dataclass(frozen=True)
class BrokenLoss:
    how: str
    normaliser: str = "unit"
    kl: str = "none"
    kl_coef: float = 0.1
    units: frozenset = frozenset({"slot", "step", "sequence"})
    needs_old: bool = True
    needs_reference: bool = True
    needs_exact_kl: bool = False
    bounded_weight: float | None = 1.0
    clip_high: float | None = None

    def __call__(self, new, old, reference, advantage_BU, units: Units):
        gap_BU = new.ratio_BU - old.ratio_BU
        term_BU = gap_BU.exp() * advantage_BU
        metrics = {"ratio": gap_BU.detach()}
        if self.how == "metric":
            metrics = {"ratio": gap_BU.mean()}
        if self.how == "double":
            term_BU = 2 * term_BU
        if self.how == "constant":
            term_BU = term_BU + gap_BU
        if self.how == "sign":
            term_BU = -term_BU
        if self.how == "first row":
            term_BU = term_BU * torch.arange(len(gap_BU)).eq(0).unsqueeze(1)
        if self.how == "local mean":
            return -term_BU[units.live_BU].mean(), metrics
        if self.how == "all units":
            return -term_BU.mean(), metrics
        loss = -units.mean(term_BU, self.normaliser)
        if self.kl == "k3":
            d_BU = reference.ratio_BU - new.ratio_BU
            loss = loss - self.kl_coef * units.mean(d_BU.exp() - d_BU - 1, self.normaliser)
        return loss, metrics


for law, how in {
    "a_scalar_and_metrics_of_units": "metric",
    "first_pass_is_the_policy_gradient": "double",
    "zero_advantage_gives_no_gradient": "constant",
    "better_answer_becomes_more_likely": "sign",
    "splitting_changes_nothing": "local mean",
    "dead_units_do_nothing": "all units",
    "weight_is_bounded": "no bound",
    "the_order_of_rows_changes_nothing": "first row",
    "extreme_ratios_stay_finite": "no bound",
}.items():
    BROKEN["loss", law] = BrokenLoss(how)
BROKEN["loss", "a_clip_acts_at_its_bound"] = BrokenLoss("no clip", clip_high=0.2)
BROKEN["loss", "kl_is_a_distance"] = BrokenLoss("negative", kl="k3")


# samplers

low_confidence = SAMPLERS.get("low_confidence")(answer_length=4, block_length=2, steps=3)


def resampled(change):
    """A sampler whose rollout is changed by `change(rollout)`."""
    return Altered(low_confidence, call=lambda *given: change(low_confidence(*given)))


def shifted(rollout):
    tokens_BL = rollout.tokens_BL.clone()
    tokens_BL[:, 0] = (tokens_BL[:, 0] + 1) % 5
    return replace(rollout, tokens_BL=tokens_BL)


def one_step_off(rollout):
    late_BL = torch.where(rollout.reveal_BL == 0, 1, rollout.reveal_BL)
    return replace(rollout, reveal_BL=late_BL)


def keyed_by(measure):
    """A sampler whose randomness depends on more than the key and the sample number."""

    def call(policy, prompts, key):
        return low_confidence(policy, prompts, Key(key.seed + measure(prompts), 0, "sample"))

    return Altered(low_confidence, call=call)


BROKEN["sampler", "prompt_untouched"] = resampled(shifted)
BROKEN["sampler", "records_fit"] = resampled(lambda r: replace(r, num_steps=r.num_steps + 1))
BROKEN["sampler", "committed_once"] = resampled(one_step_off)
BROKEN["sampler", "nothing_is_left"] = resampled(
    lambda r: replace(r, reveal_BL=torch.where(r.reveal_BL == 0, -1, r.reveal_BL))
)
BROKEN["sampler", "same_key_same_rollout"] = keyed_by(lambda prompts: int(torch.randint(99, ())))
BROKEN["sampler", "batch_invariant"] = keyed_by(lambda prompts: len(prompts.tokens_BL))
BROKEN["sampler", "padding_invariant"] = keyed_by(lambda prompts: prompts.tokens_BL.shape[1])
BROKEN["sampler", "records_can_be_recomputed"] = resampled(
    lambda r: replace(r, entropy_BL=0.9 * r.entropy_BL)
)


@dataclass(frozen=True)
class TwoFaced(SAMPLERS.get("low_confidence")):
    """Samples something else where drafts are stored."""

    def __call__(self, policy, prompts, key, noise=None):
        return super().__call__(policy, prompts, key.sub(str(self.record_drafts)), noise)


drafting = replace(low_confidence, record_drafts=True)
tree = SAMPLERS.get("tree")(answer_length=4, steps=4, branch=(2, 2))


def forgetful(*given):
    rollout = drafting(*given)
    return replace(rollout, draft_BTN=rollout.draft_BTN.roll(1, 1))


def misnumbered(*given):
    rollout = tree(*given)
    return replace(rollout, branch_BT=0 * rollout.branch_BT)


BROKEN["sampler", "states_are_stored"] = Altered(drafting, call=forgetful)
BROKEN["sampler", "storing_changes_nothing"] = TwoFaced(answer_length=4)
BROKEN["sampler", "shared_steps_are_equal"] = Altered(tree, call=misnumbered)


# models


class BrokenNetwork(ToyDenoiser):
    how = ""

    def forward(self, input_ids, attention_mask=None, *, logits_at=None, **others):
        if self.how == "blind":
            attention_mask = None
        logits = super().forward(input_ids, attention_mask).logits
        if self.how == "causal":
            alone = [
                super(BrokenNetwork, self).forward(input_ids[:, : i + 1]).logits[:, -1]
                for i in range(input_ids.shape[1])
            ]
            logits = torch.stack(alone, 1)
        if logits_at is not None:
            logits = logits[logits_at].flip(0) if self.how == "flipped" else logits[logits_at]
        return ToyOutput(logits)


def network(how, block_size=None):
    model = BrokenNetwork(1)
    model.how, model.block_size = how, block_size
    return model


class Rounded(Altered):
    def save_pretrained(self, folder):
        saved = tiny(MODELS.get("llada"), Case(0))
        saved.load_state_dict({k: w.bfloat16().float() for k, w in self.part.state_dict().items()})
        saved.save_pretrained(folder)

    @classmethod
    def from_pretrained(cls, folder):
        return MODELS.get("llada").from_pretrained(folder)


BROKEN["model", "last_token_reaches_the_first"] = network("causal")
BROKEN["model", "later_blocks_do_not_reach_earlier_ones"] = network("bidirectional", 3)
BROKEN["model", "batch_and_padding_invariant"] = network("blind")
BROKEN["model", "wanted_slots_only"] = network("flipped")
BROKEN["model", "saving_and_loading_is_exact"] = Rounded(tiny(MODELS.get("llada"), Case(0)))


class BrokenBlocks(Altered):
    """Noised blocks behind each other, without clean ones; a cache that keeps everything."""

    def __call__(self, input_ids, *others, target_ids=None, cache=None, store=False, **options):
        ids = input_ids if target_ids is None else target_ids
        return self.part(ids, *others, cache=cache, store=cache is not None, **options)


blocks = BrokenBlocks(tiny(MODELS.get("sdar"), Case(0)))
BROKEN["model", "one_pass_over_two_streams_is_a_pass_for_each_block"] = blocks
BROKEN["model", "cached_blocks_are_the_whole_row"] = blocks


# tasks

sudoku = TASKS.get("sudoku")()


def rewarded(change):
    """A task whose rewards are changed by `change(rewards)`."""
    return Altered(sudoku, reward=lambda texts, examples: change(sudoku.reward(texts, examples)))


BROKEN["task", "draws_follow_the_key"] = Altered(
    sudoku, draw=lambda num, key: sudoku.draw(num, Key(int(torch.randint(99, ())), 0, "x"))
)
BROKEN["task", "test_examples_are_fixed"] = Altered(sudoku, test=lambda num: sudoku.test(num)[::-1])
BROKEN["task", "no_test_prompt_is_trained_on"] = Altered(
    sudoku, draw=lambda num, key: sudoku.test(num)
)
BROKEN["task", "prompts_are_text_or_messages"] = Altered(sudoku, prompt=lambda example: "")
BROKEN["task", "rewards_are_a_flat_list"] = rewarded(
    lambda r: replace(r, total_X=r.total_X - r.total_X.mean())
)
BROKEN["task", "totals_are_weighted_sums"] = rewarded(lambda r: replace(r, total_X=r.total_X + 1))
BROKEN["task", "metrics_are_ratios"] = Altered(sudoku, primary="no_such_metric")


KINDS = ("loss", "sampler", "model", "task")


@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in KINDS for name in LAWS[k]])
def test_a_broken_part_is_caught(kind, name):
    part, law = BROKEN[kind, name], LAWS[kind][name]
    with pytest.raises(LawError, match=f"breaks the law '{name}'"):
        for seed in range(60):
            hold(part, law, Case(seed, seed % 7))


def test_every_broken_part_belongs_to_a_law():
    assert set(BROKEN) == {(kind, name) for kind in KINDS for name in LAWS[kind]}
