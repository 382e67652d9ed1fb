from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.records import Key, take
from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import KEY, ToyPolicy, answer, prompts, table

Tree = SAMPLERS.get("tree")


def groups(*rows, leaves):
    """Whole groups of prompts."""
    batch = prompts(*[row for row in rows for _ in range(leaves)])
    group_B = torch.arange(len(rows)).repeat_interleave(leaves)
    return replace(batch, group_B=group_B)


def test_the_published_tree_costs_what_it_says():
    # 4 rows for 64 steps, then 16 rows for 64: 4 * 64 + 16 * 64 = 1280
    sampler = Tree(answer_length=128, steps=128)
    policy = table(*[{0: 0.5}] * 128)
    rollout = sampler(policy, groups([1], leaves=16), KEY)
    assert rollout.forwards == policy.rows == 1280
    assert (sampler.group_size, sampler.num_forwards) == (16, 80)


def test_branch_numbers_are_the_smallest_samples_that_share_the_step():
    sampler = Tree(answer_length=4, steps=4, branch=(2, 3))
    rollout = sampler(ToyPolicy(), groups([1], [2], leaves=6), KEY)
    first = [0, 0, 0, 3, 3, 3]
    assert rollout.branch_BT[:6].tolist() == [[first[g]] * 2 + [g] * 2 for g in range(6)]
    assert rollout.branch_BT[6:].tolist() == (rollout.branch_BT[:6] + 6).tolist()


def test_levels_that_do_not_divide_the_steps_cut_at_the_floor():
    # cuts at 0, 5/3 -> 1, 10/3 -> 3; rows per step 2 | 4 4 | 4 4
    sampler = Tree(answer_length=5, branch=(2, 1, 2))
    rollout = sampler(ToyPolicy(), groups([1], leaves=4), KEY)
    assert rollout.branch_BT[3].tolist() == [2, 2, 2, 3, 3]
    assert rollout.branch_BT[1].tolist() == [0, 0, 0, 1, 1]
    assert rollout.forwards == 2 * 3 + 4 * 2
    assert sampler.num_forwards == 4  # 14 / 4, rounded up


def test_rows_share_their_prefix_and_part_at_the_cut():
    sampler = Tree(answer_length=12, steps=12, branch=(3, 3))
    rollout = sampler(ToyPolicy(scale=1.0), groups([1, 2], [3], leaves=9), KEY)
    tokens, reveal = answer(rollout.tokens_BL, rollout), answer(rollout.reveal_BL, rollout)
    early = torch.where(reveal < 6, tokens, -1)
    for group in range(2):
        rows = early[9 * group : 9 * group + 9]
        assert torch.equal(rows, rows[[0, 0, 0, 3, 3, 3, 6, 6, 6]])
        assert len(rows.unique(dim=0)) == 3
        assert len(tokens[9 * group : 9 * group + 9].unique(dim=0)) == 9
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        value = torch.where(reveal < 6, answer(getattr(rollout, name), rollout), 0)
        assert torch.equal(value[0], value[2]) and not torch.equal(value[0], value[3])


def test_the_first_leaf_is_what_low_confidence_samples():
    # the numbers of a branch are those of its smallest sample: sample 0 is on its own all the way
    options = dict(answer_length=8, block_length=4, steps=6, temperature=0.8)
    tree = Tree(**options)(ToyPolicy(), groups([1, 2], leaves=16), KEY)
    plain = SAMPLERS.get("low_confidence")(**options)(ToyPolicy(), prompts([1, 2]), KEY)
    assert torch.equal(tree.tokens_BL[0], plain.tokens_BL[0])
    assert torch.equal(tree.reveal_BL[0], plain.reveal_BL[0])


@pytest.mark.parametrize("size", [1, 3, 8, 12])
@pytest.mark.parametrize("options", [{}, {"record_drafts": True}, {"threshold": 0.3}])
def test_a_batch_that_splits_a_group_changes_nothing(size, options):
    sampler = Tree(answer_length=6, block_length=3, branch=(2, 2, 2), **options)
    batch = groups([1, 2], [3], leaves=8)
    whole = sampler(ToyPolicy(), batch, KEY)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(2))
    forwards = 0
    for rows in order.split(size):
        part, policy = take(batch, rows), ToyPolicy()
        found = sampler(policy, part, KEY)
        for name in ("tokens_BL", "reveal_BL", "branch_BT"):
            assert torch.equal(getattr(found, name), getattr(whole, name)[rows])
        torch.testing.assert_close(found.logprob_BL, whole.logprob_BL[rows])
        if whole.draft_BTN is not None:
            assert torch.equal(found.draft_BTN, whole.draft_BTN[rows])
            assert torch.equal(found.hidden_BTN, whole.hidden_BTN[rows])
        assert found.forwards == sum(len(call.tokens) for call in policy.calls)
        forwards += found.forwards
    assert forwards > whole.forwards


def test_rows_that_stop_early_do_not_run_again_below_a_cut():
    sampler = Tree(answer_length=8, block_length=2, branch=(2, 2), stop_at_end=True)
    seeds = [Key(seed, 0, "sample") for seed in range(8)]
    rollouts = [sampler(ToyPolicy(), groups([1], [2], leaves=4), key) for key in seeds]
    stopped = [r for r in rollouts if (answer(r.reveal_BL, r) < 0).any()]
    assert stopped
    for rollout in stopped:
        ran_BT = rollout.block_entropy_BT > 0
        shared = [
            {(n, g) for n, g, ran in zip(*columns, strict=True) if ran}
            for columns in zip(
                rollout.branch_BT.T.tolist(), [rollout.group_B.tolist()] * 8, ran_BT.T.tolist(),
                strict=True,
            )
        ]  # fmt: skip
        assert rollout.forwards == sum(map(len, shared))


def test_rows_of_other_prompts_with_equal_numbers_share_nothing():
    # evaluation: one row a prompt, samples 0 to 3 would be one group of four
    batch = prompts([1, 2], [3], [4, 5], [6])
    sampler = Tree(answer_length=4, branch=(2, 2), temperature=0.0)
    found = sampler(ToyPolicy(), batch, KEY)
    plain = SAMPLERS.get("low_confidence")(answer_length=4, temperature=0.0)(
        ToyPolicy(), batch, KEY
    )
    assert torch.equal(found.tokens_BL, plain.tokens_BL)
    assert found.forwards == plain.forwards == 16


def test_too_few_steps_and_empty_branches_are_refused():
    with pytest.raises(ValidationError, match=r"3 spans, and there are 2 steps; use steps: 3"):
        Tree(answer_length=8, steps=2, branch=(2, 2, 2))
    with pytest.raises(ValidationError, match=r"branch"):
        Tree(branch=())
    with pytest.raises(ValidationError, match=r"branch"):
        Tree(branch=(2, 0))
    assert Tree().branch == (4, 4)
