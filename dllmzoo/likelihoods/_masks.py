"""Four laws by which an answer is masked: a random subset, or the state of a block-wise sampler."""

from typing import Literal

import torch
from torch import Tensor

from dllmzoo.likelihoods._plan import after_end, precise
from dllmzoo.records import Key, Rollout

MaskLaw = Literal["block_random", "random", "block_all", "all"]
BlockChoice = Literal["uniform", "permutation_mod"]


def masks(
    kind: MaskLaw,
    key: Key,
    rollout: Rollout,
    views: int,
    *,
    block_length: int | None = None,
    prefix_noise: float = 0.15,
    block_choice: BlockChoice = "uniform",
    score_block_only: bool = False,
) -> tuple[Tensor, Tensor]:
    """What K views hide and score; every law hides what stands behind the end, unscored.

    `random` hides k of the n valid slots, k uniform in 1..n; `all` hides them all. `block_random`
    is the state inside a block of a block-wise sampler: m of the block's valid slots are hidden, m
    uniform in 1..their number, and all slots of later blocks; `block_all` hides the whole block.
    Slots of the answer that were given are never hidden. Row i depends on the key and
    `sample_B[i]` alone.

    Args:
        kind: the law.
        key: of the draws.
        rollout: answers, their valid slots and their sample numbers.
        views: K.
        block_length: slots of a block, counted from the answer's start; None = the sampler's, or
            else the whole answer.
        prefix_noise: probability that a slot before the block is hidden too, prompt included;
            without blocks, that a prompt slot is.
        block_choice: `uniform` deals a row's used blocks (those that hold a valid slot) in a
            random order, over and over, so none comes back before all have been dealt;
            `permutation_mod` takes entry k of a random order of all blocks modulo the number of
            used ones, as released.
        score_block_only: score hidden slots of the chosen block only, not of all blocks.

    Returns:
        hide_BKL and score_BKL; the scored slots are the hidden valid ones.
    """
    B, L = rollout.tokens_BL.shape
    valid_BKL = rollout.valid_BL.unsqueeze(1).expand(B, views, L)
    block_L = answer_block(rollout, block_length)
    if kind in ("random", "all"):
        chosen_BKL, later_BKL = valid_BKL, torch.zeros_like(valid_BKL)
        before_L = block_L < 0
        before_BKL = before_L.expand(B, views, L)
    else:
        at_BK1 = chosen_block(key, rollout, views, block_L, block_choice).unsqueeze(2)
        chosen_BKL = valid_BKL & (block_L == at_BK1)
        later_BKL = valid_BKL & (block_L > at_BK1)
        before_BKL = block_L < at_BK1
    inside_BKL = chosen_BKL
    if kind in ("random", "block_random"):
        inside_BKL = random_part(key, rollout, chosen_BKL)
    noise_BKL = torch.zeros_like(valid_BKL)
    if prefix_noise > 0:
        free_BL = rollout.attend_BL & ~given(rollout)
        drawn_BKL = rollout.slot_uniform(key.sub("noise"), views)
        noise_BKL = (drawn_BKL < prefix_noise) & before_BKL & free_BL.unsqueeze(1)
    hide_BKL = inside_BKL | later_BKL | noise_BKL | after_end(rollout).unsqueeze(1)
    scored_BKL = chosen_BKL if score_block_only else valid_BKL
    return hide_BKL, hide_BKL & scored_BKL


def given(rollout: Rollout) -> Tensor:
    """given_BL: real slots of the last N columns that stood there from the start."""
    L = rollout.tokens_BL.shape[1]
    inside_L = torch.arange(L, device=rollout.tokens_BL.device) >= L - rollout.canvas
    return inside_L & rollout.attend_BL & ~rollout.answer_BL


def noised_prompt(key: Key, rollout: Rollout, views: int, prob: float) -> Tensor:
    """noise_BKL: prompt slots that each view hides, each with probability `prob`."""
    prompt_BL = rollout.attend_BL & ~rollout.answer_BL & ~given(rollout)
    return (rollout.slot_uniform(key, views) < prob) & prompt_BL.unsqueeze(1)


def answer_block(rollout: Rollout, block_length: int | None = None) -> Tensor:
    """Number of each column's block, (L,), counted from the answer's start; -1 before it."""
    N, L = rollout.canvas, rollout.tokens_BL.shape[1]
    length = block_length or getattr(rollout.sampler, "block_length", None) or N
    column_L = torch.arange(L, device=rollout.tokens_BL.device) - (L - N)
    return torch.where(column_L < 0, -1, column_L // max(int(length), 1))


def chosen_block(
    key: Key, rollout: Rollout, views: int, block_L: Tensor, how: BlockChoice
) -> Tensor:
    """The block of each view, (B, K); 0 where a row has no valid slot."""
    blocks = int(block_L[-1]) + 1
    number = torch.arange(blocks, device=block_L.device)
    used = (rollout.valid_BL.unsqueeze(2) & (block_L.unsqueeze(1) == number)).any(1)
    count_B1 = used.sum(1, keepdim=True).clamp(min=1)
    drawn = key.sub("block").uniform(rollout.sample_B, blocks).to(block_L.device)
    view_K = torch.arange(views, device=block_L.device)
    if how == "uniform":
        order = drawn.masked_fill(~used, 2.0).argsort(dim=1, stable=True)
        return order.gather(1, view_K % count_B1)
    order = drawn.argsort(dim=1, stable=True)
    rank_BK = order[:, view_K % blocks] % count_B1
    place = (~used).long().argsort(dim=1, stable=True)  # the used blocks first, from the left
    return place.gather(1, rank_BK)


def random_part(key: Key, rollout: Rollout, among_BKL: Tensor) -> Tensor:
    """In each view a random subset of `among_BKL`, its size uniform in 1..their number."""
    views = among_BKL.shape[1]
    total_BK = among_BKL.sum(2)
    drawn_BK = key.sub("size").uniform(rollout.sample_B, views)
    drawn_BK = drawn_BK.to(total_BK.device, precise(total_BK.device))
    size_BK = 1 + (drawn_BK * total_BK).long().clamp(max=total_BK - 1)
    order_BKL = rollout.slot_uniform(key.sub("subset"), views).masked_fill(~among_BKL, 2.0)
    rank_BKL = order_BKL.argsort(dim=2, stable=True).argsort(dim=2)
    return (rank_BKL < size_BK.unsqueeze(2)) & among_BKL
