"""Greedy evaluation: each example once, the same on any number of processes, with intervals."""

import math
import threading
from types import SimpleNamespace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.recipe.sections import Evaluate
from dllmzoo.training.evaluate import evaluate, evaluator, greedy, paired, wilson
from dllmzoo.zoo import SAMPLERS, TASKS
from tests.unit.training.small import Digits, Ranks, codec, digit_sum, network

SAMPLER = SAMPLERS.get("low_confidence")(answer_length=6, steps=3)


def evaluated(examples, batch=4, accelerator=None, task=None):
    policy = network()
    return evaluate(
        policy, codec(policy), task or Digits(), greedy(SAMPLER), examples=examples, batch=batch,
        accelerator=accelerator,
    )  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3, 10, 64])
def test_the_batch_changes_no_answer(batch):
    examples = Digits().test(10)
    whole = evaluated(examples, 10)
    found = evaluated(examples, batch)
    assert found.texts == whole.texts and found.metrics == whole.metrics
    assert found.forwards == 30 and found.examples == examples
    assert found.solved == [digit_sum(text) > 6 for text in found.texts]
    assert found.metrics["solved_rate"] == sum(found.solved) / 10
    low, high = found.metrics["solved_rate_low"], found.metrics["solved_rate_high"]
    assert low < found.metrics["solved_rate"] < high or sum(found.solved) in (0, 10)


@pytest.mark.parametrize("world", [2, 3, 4, 7])
@pytest.mark.parametrize("number", [10, 3])
def test_each_example_counts_once_whatever_the_number_of_processes(world, number, monkeypatch):
    examples = Digits().test(number)
    whole = evaluated(examples)
    ranks = Ranks(world)
    mine = threading.local()

    def gather_object(items):
        return [item for part in ranks.exchange(mine.rank, items) for item in part]

    monkeypatch.setattr("accelerate.utils.gather_object", gather_object)

    def work(accelerator):
        mine.rank = accelerator.process_index
        return evaluated(examples, 2, accelerator)

    for found in ranks.run(work):
        assert found.texts == whole.texts and found.metrics == whole.metrics
        assert found.forwards == whole.forwards == 3 * number


def test_nothing_to_evaluate_is_null():
    found = evaluated([])
    assert found.metrics["solved_rate"] is None and found.solved == []
    assert (found.metrics["solved_rate_low"], found.metrics["solved_rate_high"]) == (0.0, 1.0)


def test_evaluation_is_greedy_with_its_own_steps_and_no_threshold():
    sampler = SAMPLERS.get("low_confidence")(answer_length=6, steps=3, temperature=0.7)
    assert greedy(sampler).temperature == 0.0 and greedy(sampler).steps == 3
    assert greedy(sampler, 2).num_steps == 2
    dynamic = SAMPLERS.get("low_confidence")(answer_length=6, threshold=0.9)
    assert greedy(dynamic).threshold == 0.9
    assert greedy(dynamic, 2).threshold is None and greedy(dynamic, 2).steps == 2


def test_the_steps_of_a_block_sampler_are_those_of_a_block_and_keep_its_threshold():
    blocks = SAMPLERS.get("block_diffusion")(answer_length=6, remask="dynamic", threshold=0.7)
    assert greedy(blocks, 2).steps_per_block == 2 and greedy(blocks, 2).threshold == 0.7
    assert greedy(blocks).steps_per_block is None


def test_the_policy_is_evaluated_without_gradient_in_its_resting_mode():
    policy = network().train()
    seen = []

    class Watch(torch.nn.Module):
        mask_id, stop_ids, block_size = policy.mask_id, policy.stop_ids, None
        device = policy.device

        def forward(self, *args, **options):
            seen.append((torch.is_grad_enabled(), self.training))
            return policy(*args, **options)

    evaluate(Watch(), codec(policy), Digits(), greedy(SAMPLER), examples=Digits().test(2), batch=4)
    assert set(seen) == {(False, False)}


def test_wilson_by_hand():
    # 1 of 4, z = 1.96: middle (.25 + 3.8415/8) / (1 + 3.8415/4) = .37249
    # half width 1.96/1.96038 * sqrt(.1875/4 + 3.8415/64) = .32688
    low, high = wilson(1, 4)
    assert (low, high) == pytest.approx((0.0456, 0.6994), abs=2e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 10)[0] == pytest.approx(0.0) and wilson(10, 10)[1] == pytest.approx(1.0)


def test_paired_by_hand():
    # gains 1, 0, 0, 0, -1, 1: mean 1/6, squares around it sum to 3 - 6/36 = 2.8333, /5 = .56667
    before = [False, True, False, True, True, False]
    after = [True, True, False, True, False, True]
    mean, low, high = paired(before, after)
    spread = 1.959964 * math.sqrt(2.833333 / 5 / 6)
    assert mean == pytest.approx(1 / 6) and high - mean == pytest.approx(spread)
    assert mean - low == pytest.approx(spread)
    assert paired([], []) == (0.0, 0.0, 0.0)
    # lists of unlike length share their first examples
    assert paired([True, False], [True, True, False])[0] == pytest.approx(1 / 2)


def recipe(**parts):
    sections = {"evaluate": Evaluate(sampler=parts.pop("evaluates", None))}
    return SimpleNamespace(**parts, **sections)


def test_evaluation_uses_its_own_sampler_if_it_has_one():
    entropy = SAMPLERS.get("entropy")(answer_length=6)
    assert evaluator(recipe(sampler=SAMPLER)) is SAMPLER
    assert evaluator(recipe(sampler=SAMPLER, evaluates=entropy)) == entropy
    stored = SAMPLERS.get("stored")(answer_length=6)
    assert evaluator(recipe(sampler=stored, evaluates=SAMPLER)) == SAMPLER
    with pytest.raises(UsageError, match=r"evaluate.sampler=\{name: low_confidence"):
        evaluator(recipe(sampler=stored))


def test_evaluation_stores_no_drafts_unless_it_must():
    drafting = SAMPLERS.get("low_confidence")(answer_length=6, record_drafts=True)
    assert not greedy(drafting).records_drafts
    remasking = SAMPLERS.get("running_confidence")(answer_length=6)
    assert greedy(remasking).records_drafts and greedy(remasking, 2).steps == 2
    tree = SAMPLERS.get("tree")(answer_length=6)
    assert greedy(tree).branch == (4, 4)


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_blanks_of_held_out_examples_are_filled(batch):
    task, policy = TASKS.get("sudoku")(), network()
    sampler = greedy(SAMPLERS.get("infill")(answer_length=16, steps=4))
    examples = task.test(8)
    found = evaluate(policy, codec(policy), task, sampler, examples=examples, batch=batch)
    whole = evaluate(policy, codec(policy), task, sampler, examples=examples, batch=8)
    assert found.texts == whole.texts and found.forwards == 8 * 4
    for example, text in zip(examples, found.texts, strict=True):
        # other special tokens of an untrained network are no text, so only the order is sure
        clues = [clue for clue in example["puzzle"] if clue != "0"]
        rest = iter(text)
        assert all(clue in rest for clue in clues)
