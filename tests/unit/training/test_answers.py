"""Answers in order, each once, the same however they are divided."""

import itertools
import threading

import pytest

from dllmzoo.errors import UsageError
from dllmzoo.training.answers import answers, refuse_idle_steps
from dllmzoo.training.evaluate import answering, evaluate, greedy
from dllmzoo.zoo import SAMPLERS
from tests.unit.training.small import Digits, Ranks, codec, digit_sum, network

WARM = SAMPLERS.get("low_confidence")(answer_length=6, steps=3, temperature=2.0)


def found(number=5, samples=3, batch=4, **options):
    """(item, sample, text) of all answers, and the forwards of each call."""
    policy = network()
    parts = list(
        answers(
            policy, codec(policy), Digits(), WARM, lambda texts, examples: texts,
            examples=Digits().test(number), batch=batch, samples=samples, **options,
        )
    )  # fmt: skip
    rows = [(each.item, each.sample, each.text) for part, _ in parts for each in part]
    assert all(each.text == each.verdict for part, _ in parts for each in part)
    return rows, [forwards for _, forwards in parts]


def test_answers_come_in_order_of_example_then_sample():
    rows, forwards = found()
    assert [row[:2] for row in rows] == list(itertools.product(range(5), range(3)))
    assert forwards == [12, 12, 12, 9]  # three steps a row, four rows a call
    assert len({text for *_, text in rows}) > 5  # samples differ


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_the_batch_changes_no_sample(batch):
    assert found(batch=batch)[0] == found()[0]


def test_more_samples_and_more_examples_leave_the_first_as_they_were():
    few = found(number=3, samples=2)[0]
    many = {row[:2]: row[2] for row in found(number=5, samples=4)[0]}
    assert all(many[item, sample] == text for item, sample, text in few)


def test_another_seed_gives_other_samples():
    assert found(seed=1)[0] != found()[0]


@pytest.mark.parametrize("start", [1, 4, 14, 15])
def test_an_evaluation_goes_on_anywhere(start):
    rows, _ = found(start=start)
    assert rows == found()[0][start:]


@pytest.mark.parametrize("world", [2, 4, 7])
@pytest.mark.parametrize("start", [0, 3])
def test_processes_share_the_rows_and_all_see_all_of_them(world, start, monkeypatch):
    whole, forwards = found(start=start)
    ranks, mine = Ranks(world), threading.local()

    def gather_object(items):
        return [item for part in ranks.exchange(mine.rank, items) for item in part]

    monkeypatch.setattr("accelerate.utils.gather_object", gather_object)

    def work(accelerator):
        mine.rank = accelerator.process_index
        return found(batch=2, start=start, accelerator=accelerator)

    for rows, ran in ranks.run(work):
        assert rows == whole
        assert sum(ran) == sum(forwards)


def test_pass_at_k_of_an_evaluation_by_hand():
    policy, examples = network(), Digits().test(6)
    done = evaluate(
        policy, codec(policy), Digits(), WARM, examples=examples, batch=5, samples=3, seed=2
    )
    right = [sum(digit_sum(text) > 6 for text in done.texts[i : i + 3]) for i in range(0, 18, 3)]
    assert done.examples == [each for each in examples for _ in range(3)]
    assert done.solved == [digit_sum(text) > 6 for text in done.texts]
    assert 0 < sum(right) < 18
    assert done.metrics["solved_rate"] == sum(right) / 18
    assert done.metrics["pass@1"] == pytest.approx(sum(right) / 18)
    # of the 3 pairs of 3 answers, 1 - C(3 - c, 2) / 3 hold a right one: 0, 2/3, 1, 1
    pairs = sum([0, 2 / 3, 1, 1][c] for c in right) / 6
    assert done.metrics["pass@2"] == pytest.approx(pairs)
    assert "pass@4" not in done.metrics and "pass@3" not in done.metrics
    for name in ("solved_rate", "pass@1", "pass@2"):
        low, high = done.metrics[f"{name}_low"], done.metrics[f"{name}_high"]
        assert 0 <= low < done.metrics[name] <= high <= 1


def test_one_answer_each_has_no_pass_at_k():
    policy = network()
    done = evaluate(
        policy, codec(policy), Digits(), greedy(WARM), examples=Digits().test(4), batch=4
    )
    assert not [name for name in done.metrics if name.startswith("pass@")]


def test_the_sampler_of_an_evaluation_in_one_step():
    # block_length 32 does not fit 16 tokens, so a length cannot be set before or after the rest
    sampler = SAMPLERS.get("low_confidence")(answer_length=512, block_length=32, steps=256)
    made = answering(sampler, 8, temperature=0.5, answer_length=128)
    assert (made.answer_length, made.steps, made.temperature) == (128, 8, 0.5)


def test_more_steps_than_a_block_has_tokens_are_refused():
    blocks, policy = SAMPLERS.get("block_diffusion")(answer_length=6), network(family="sdar")
    refuse_idle_steps(greedy(blocks, 2), policy)
    refuse_idle_steps(greedy(blocks), policy)
    with pytest.raises(UsageError, match=r"3 steps for a block.*have 2 tokens.*steps_per_block: 2"):
        refuse_idle_steps(greedy(blocks, 3), policy)
    with pytest.raises(UsageError, match="3 steps for a block"):
        evaluate(
            policy, codec(policy), Digits(), greedy(blocks, 3), examples=Digits().test(2), batch=2
        )
