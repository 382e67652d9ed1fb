"""Mask laws: what each hides and scores, and how often, on answers with ends and given slots."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from dllmzoo.laws import inputs, trajectories
from dllmzoo.likelihoods._masks import given, masks, noised_prompt
from dllmzoo.records import Key
from tests.scripted import script
from tests.strategies import played

KEY = Key(3, 0, "views")
KINDS = ("random", "block_random", "block_all", "all")


def answers(rows: int, valid: int, length: int, **settings):
    """Rows of one prompt word, `valid` tokens with the end token (5) last, then a tail."""
    tokens = [*[1] * (valid - 1), 5, *[2] * (length - valid)]
    return played([tokens] * rows, [[0] * length] * rows, **settings)


def text(mask_L) -> str:
    return "".join(str(int(hidden)) for hidden in mask_L)


def blocks_of(hide_BKL, block_length: int):
    """The first hidden block of each view; with no noise before it, the chosen one."""
    return (hide_BKL.long().argmax(2) - 1) // block_length


def test_each_law_on_one_answer():
    # a prompt word, then 8 slots of which 6 are valid, in blocks of 2; block 1 is drawn first
    rollout = answers(1, 6, 8)
    # the block of the smallest number comes first: 1, then 2, then 0; block 3 holds no valid slot
    order = torch.tensor([[0.9, 0.1, 0.5, 0.0]])
    # in view 0 the left slot of a block has the smaller number, in view 1 the right one
    subset = torch.stack([torch.arange(9), -torch.arange(9)], 1).double().unsqueeze(0) / 9
    # u = 0.4: m = 1 + floor(0.4 * 2) = 1 of a block, k = 1 + floor(0.4 * 6) = 3 of the answer
    size = torch.tensor([[0.4, 0.4]])
    key = script(block=order, subset=subset, size=size)
    found = {kind: masks(kind, key, rollout, 2, block_length=2, prefix_noise=0.0) for kind in KINDS}
    hidden = {kind: [text(row) for row in hide[0]] for kind, (hide, _) in found.items()}
    scored = {kind: [text(row) for row in score[0]] for kind, (_, score) in found.items()}
    assert hidden["block_random"] == ["000101111", "000000111"]
    assert scored["block_random"] == ["000101100", "000000100"]
    assert hidden["block_all"] == ["000111111", "000001111"]
    assert scored["block_all"] == ["000111100", "000001100"]
    assert hidden["random"] == ["011100011", "000011111"]
    assert scored["random"] == ["011100000", "000011100"]
    assert hidden["all"] == ["011111111"] * 2
    assert scored["all"] == ["011111100"] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_behind_the_end_are_hidden_and_never_scored(kind):
    hide_BKL, score_BKL = masks(kind, KEY, answers(30, 3, 7), 2, block_length=2)
    assert hide_BKL[..., 4:].all() and not score_BKL[..., 4:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_hidden_and_valid_is_scored_and_each_view_scores_something(kind):
    rollout = answers(60, 5, 7)
    hide_BKL, score_BKL = masks(kind, KEY, rollout, 3, block_length=2)
    assert torch.equal(score_BKL, hide_BKL & rollout.valid_BL.unsqueeze(1))
    assert score_BKL.any(2).all()


def test_sizes_of_random_subsets_are_uniform():
    # 4 valid slots: each size has probability 1/4, standard error 0.007 over 4000 draws
    _, score_BKL = masks("random", KEY, answers(2000, 4, 4), 2)
    size_BK = score_BKL.sum(2)
    for size in (1, 2, 3, 4):
        assert (size_BK == size).float().mean().item() == pytest.approx(0.25, abs=0.03)
    # one of 4 slots is hidden alone with probability 1/16
    alone = (score_BKL[..., 1] & (size_BK == 1)).float().mean().item()
    assert alone == pytest.approx(1 / 16, abs=0.02)


def test_sizes_inside_a_block_are_uniform_in_its_valid_tokens():
    # blocks of 4 over 6 valid tokens: block 0 has 4, block 1 has 2
    rollout = answers(4000, 6, 8)
    hide_BKL, score_BKL = masks("block_random", KEY, rollout, 1, block_length=4, prefix_noise=0.0)
    second_B = ~hide_BKL[:, 0, 1:5].any(1)
    sizes = Counter(score_BKL[second_B, 0].sum(1).tolist())
    assert set(sizes) == {1, 2}
    assert sizes[1] / second_B.sum().item() == pytest.approx(0.5, abs=0.05)
    assert second_B.float().mean().item() == pytest.approx(0.5, abs=0.04)
    inside = Counter(score_BKL[~second_B, 0, 1:5].sum(1).tolist())
    for size in (1, 2, 3, 4):
        assert inside[size] / (~second_B).sum().item() == pytest.approx(0.25, abs=0.05)


def test_no_block_comes_back_before_all_used_ones_have_come():
    # 3 used blocks of 4; 6 views
    rollout = answers(200, 6, 8)
    hide_BKL, _ = masks("block_all", KEY, rollout, 6, block_length=2, prefix_noise=0.0)
    block_BK = blocks_of(hide_BKL, 2)
    assert (block_BK[:, :3].sort(1).values == torch.arange(3)).all()
    assert (block_BK[:, 3:].sort(1).values == torch.arange(3)).all()


@pytest.mark.parametrize(
    ("choice", "shares"),
    [("uniform", (1 / 3, 1 / 3, 1 / 3)), ("permutation_mod", (3 / 8, 3 / 8, 2 / 8))],
)
def test_how_often_a_block_is_chosen(choice, shares):
    # 8 blocks, 3 of them used: 0..7 modulo 3 is 0 and 1 three times, 2 twice
    rollout = answers(3000, 5, 16)
    hide_BKL, _ = masks(
        "block_all", KEY, rollout, 2, block_length=2, prefix_noise=0.0, block_choice=choice
    )
    block_BK = blocks_of(hide_BKL, 2)
    for block, share in enumerate(shares):
        found = (block_BK == block).float().mean(0)
        assert found.tolist() == pytest.approx([share] * 2, abs=0.03)


def test_released_choice_may_name_a_block_twice():
    rollout = answers(300, 5, 16)
    settings = {"block_length": 2, "prefix_noise": 0.0, "block_choice": "permutation_mod"}
    block_BK = blocks_of(masks("block_all", KEY, rollout, 2, **settings)[0], 2)
    assert (block_BK[:, 0] == block_BK[:, 1]).any()


def test_more_views_than_blocks_go_round_the_released_permutation():
    settings = {"block_length": 4, "prefix_noise": 0.0, "block_choice": "permutation_mod"}
    block_BK = blocks_of(masks("block_all", KEY, answers(50, 8, 8), 5, **settings)[0], 4)
    assert torch.equal(block_BK[:, :2], block_BK[:, 2:4])
    assert torch.equal(block_BK[:, 0], block_BK[:, 4])


def test_the_prefix_is_noised_prompt_included_and_padding_is_not():
    rollout = inputs.padded(answers(3000, 8, 8), 2)
    hide_BKL, score_BKL = masks("block_all", KEY, rollout, 1, block_length=4)
    assert not hide_BKL[..., :2].any()
    assert hide_BKL[..., 2].float().mean().item() == pytest.approx(0.15, abs=0.03)
    second_B = ~hide_BKL[:, 0, 3:7].all(1)
    earlier = hide_BKL[second_B, 0, 3:7].float().mean().item()
    assert earlier == pytest.approx(0.15, abs=0.03)
    assert torch.equal(hide_BKL[..., 3:], score_BKL[..., 3:]), "noised answer tokens are scored"


@pytest.mark.parametrize("kind", ["random", "all"])
def test_without_blocks_the_noise_falls_on_the_prompt_alone(kind):
    rollout = answers(2000, 4, 4)
    noised, _ = masks(kind, KEY, rollout, 1, prefix_noise=0.5)
    clean, _ = masks(kind, KEY, rollout, 1, prefix_noise=0.0)
    assert torch.equal(noised[..., 1:], clean[..., 1:]) and not clean[..., 0].any()
    assert noised[..., 0].float().mean().item() == pytest.approx(0.5, abs=0.05)


def test_scoring_can_be_kept_to_the_chosen_block():
    rollout = answers(100, 6, 8)
    settings = {"block_length": 2, "prefix_noise": 0.3}
    hide_BKL, every_BKL = masks("block_random", KEY, rollout, 2, **settings)
    same_BKL, block_BKL = masks("block_random", KEY, rollout, 2, **settings, score_block_only=True)
    assert torch.equal(hide_BKL, same_BKL)
    assert not (block_BKL & ~every_BKL).any()
    place_BK = (block_BKL[..., 1:].long().argmax(2)) // 2
    for block in range(3):
        outside = torch.ones(8, dtype=torch.bool)
        outside[2 * block : 2 * block + 2] = False
        assert not block_BKL[..., 1:][place_BK == block][:, outside].any()
    assert block_BKL.any(2).all() and (every_BKL.sum(2) > block_BKL.sum(2)).any()


def test_blocks_are_the_samplers_unless_given_and_one_without_them():
    rollout = answers(40, 8, 8)
    blocks = replace(rollout, sampler=inputs.Played(answer_length=8, block_length=2))
    by_sampler = masks("block_all", KEY, blocks, 1, prefix_noise=0.0)
    given_here = masks("block_all", KEY, rollout, 1, block_length=2, prefix_noise=0.0)
    assert all(torch.equal(a, b) for a, b in zip(by_sampler, given_here, strict=True))
    alone, _ = masks("block_all", KEY, rollout, 1, prefix_noise=0.0)  # one block of 8
    assert alone[..., 1:].all()


@pytest.mark.parametrize("kind", KINDS)
def test_given_slots_are_never_hidden_and_blocks_count_them(kind):
    for seed in range(10):
        case = inputs.Case(seed, 6)
        rollout = trajectories.with_given_slots(inputs.rollout(case), case)
        hide_BKL, score_BKL = masks(kind, KEY, rollout, 3, block_length=2, prefix_noise=0.9)
        fixed_BKL = given(rollout).unsqueeze(1)
        assert not ((hide_BKL | score_BKL) & fixed_BKL).any()
        full_B = rollout.length_B > 0
        assert score_BKL.any(2)[full_B].all() and not score_BKL[~full_B].any()


def test_a_block_whose_slots_were_all_given_is_not_chosen():
    # 6 slots in blocks of 2; the first four were given
    rollout = answers(20, 6, 6)
    given_BL = torch.zeros_like(rollout.answer_BL)
    given_BL[:, 1:5] = True
    rollout = replace(
        rollout, answer_BL=rollout.answer_BL & ~given_BL, valid_BL=rollout.valid_BL & ~given_BL
    )
    assert rollout.canvas == 6
    hide_BKL, _ = masks("block_all", KEY, rollout, 2, block_length=2, prefix_noise=0.0)
    assert [text(row) for row in hide_BKL.flatten(0, 1).unique(dim=0)] == ["0000011"]


def test_prompt_noise_leaves_answers_and_given_slots_alone():
    case = inputs.Case(4, 6)
    rollout = trajectories.with_given_slots(inputs.rollout(case), case)
    noise_BKL = noised_prompt(KEY, rollout, 5, 0.99)
    N = rollout.canvas
    assert not noise_BKL[..., -N:].any() and not (noise_BKL & ~rollout.attend_BL.unsqueeze(1)).any()
    assert noise_BKL.any()
