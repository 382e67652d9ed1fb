"""Prompts and answers of a round, with what samplers are given."""

import torch

from dllmzoo.records import Key
from dllmzoo.training.sampling import answers, batches, draw, sample
from dllmzoo.zoo import TASKS
from tests.unit.training.small import budget, learner, method

SUDOKU = TASKS.get("sudoku")()


def drawn(sampler, **changes):
    parts = method(task=SUDOKU, sampler=sampler, selector=None, likelihood="mean_field")
    made = learner()
    prompts = draw(parts, budget(**changes), made, Key(0, 3, "prompts"))
    return parts, made, prompts


def test_a_round_of_pairs_holds_the_right_and_the_spoilt_answer_of_each_prompt():
    parts, made, prompts = drawn(("stored", {"answer_length": 16}), prompts=3, group_size=2)
    rollout = sample(parts.sampler, made.policy, prompts, Key(0, 3, "sample"), batch=4)
    assert rollout.forwards == 0 and rollout.canvas == 16
    texts = made.codec.texts(answers(rollout.tokens_BL, rollout))
    rewards = SUDOKU.reward(texts, rollout.examples).total_X.view(3, 2)
    assert (rewards[:, 0] == 1).all() and (rewards[:, 1] < 1).all()
    assert [t == e["solution"] for t, e in zip(texts, rollout.examples, strict=True)] == [
        True, False,
    ] * 3  # fmt: skip


def test_a_round_of_blanks_keeps_the_clues():
    parts, made, prompts = drawn(("infill", {"answer_length": 16, "steps": 4}), prompts=2)
    assert ((prompts.answer_BN == made.codec.mask_id).sum(1) >= 4).all()
    rollout = sample(parts.sampler, made.policy, prompts, Key(0, 3, "sample"), batch=3)
    texts = made.codec.texts(answers(rollout.tokens_BL, rollout))
    metrics = SUDOKU.metrics(texts, rollout.examples)
    given_BN = prompts.answer_BN != made.codec.mask_id
    assert torch.equal(answers(rollout.tokens_BL, rollout)[given_BN], prompts.answer_BN[given_BN])
    assert answers(rollout.answer_BL, rollout).logical_not().equal(given_BN)
    assert metrics["clue_kept_rate"].value is not None


def test_a_tree_of_answers_runs_its_shared_steps_once_for_whole_groups():
    tree = ("tree", {"answer_length": 16, "steps": 4, "branch": (2, 2)})
    parts, made, prompts = drawn(tree, prompts=2, group_size=4)
    whole = sample(parts.sampler, made.policy, prompts, Key(0, 3, "sample"), batch=8)
    split = sample(parts.sampler, made.policy, prompts, Key(0, 3, "sample"), batch=3)
    assert whole.forwards == 2 * (2 * 2 + 4 * 2) < split.forwards
    for name in ("tokens_BL", "reveal_BL", "branch_BT"):
        assert torch.equal(getattr(whole, name), getattr(split, name))


def test_batches_hold_whole_groups_where_these_fit():
    def rows(groups, batch):
        return [part.tolist() for part in batches(torch.tensor(groups), batch)]

    assert rows([7, 7, 3, 3, 5, 5], 4) == [[0, 1, 2, 3], [4, 5]]
    assert rows([7, 7, 3, 3, 5, 5], 3) == [[0, 1], [2, 3], [4, 5]]
    # a group that does not fit is split, and joins no other
    assert rows([0, 0, 0, 1, 1, 1], 2) == [[0, 1], [2], [3, 4], [5]]
    assert rows([0, 1, 1], 8) == [[0, 1, 2]]
    assert [part.tolist() for part in batches(torch.zeros(0, dtype=torch.int64), 4)] == [[]]
