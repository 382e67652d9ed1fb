"""A rollout as a sampler would leave it, with random words, and its chosen denoising steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from dllmzoo.bench.place import SEED, Place, built
from dllmzoo.records import Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS, SAMPLERS, SELECTORS


def sampler(place: Place) -> Any:
    """The sampler of the size's rollouts."""
    size = place.size
    return built(
        SAMPLERS, "low_confidence", answer_length=size.answer, block_length=size.block,
        steps=size.steps, temperature=size.temperature,
    )  # fmt: skip


def rollout(place: Place, network: Any, rows: int) -> Rollout:
    """A finished rollout: blocks in order, the slots of a block in random order."""
    size, made_by = place.size, sampler(place)
    tokens_BL = place.tokens(rows, size.length, network.config.vocab_size)
    order = Key(SEED, 0, "order").uniform(torch.arange(rows), size.answer // size.block, size.block)
    inner = order.argsort(-1).argsort(-1) // size.commits
    block = torch.arange(size.answer // size.block).view(1, -1, 1)
    reveal_BN = (block * size.steps_per_block + inner).flatten(1).to(place.device)
    answer_BL = pad(torch.ones_like(reveal_BN, dtype=torch.bool), (size.prompt, 0))
    entropy = Key(SEED, 0, "entropy").uniform(torch.arange(rows), size.answer).to(place.device)
    row_B = torch.arange(rows, device=place.device)
    return Rollout(
        tokens_BL=tokens_BL,
        attend_BL=torch.ones_like(answer_BL),
        answer_BL=answer_BL,
        valid_BL=answer_BL,
        reveal_BL=pad(reveal_BN, (size.prompt, 0), value=-1),
        logprob_BL=pad(-entropy, (size.prompt, 0)),
        entropy_BL=pad(entropy, (size.prompt, 0)),
        confidence_BL=pad(1 - entropy, (size.prompt, 0)),
        block_entropy_BT=torch.ones(rows, size.steps, device=place.device),
        group_B=row_B // 4,
        sample_B=row_B,
        examples=[{}] * rows,
        num_steps=size.steps,
        sampler=made_by,
        forwards=rows * size.steps,
    )


def views(made: Rollout, states: int) -> tuple[Steps, Views]:
    """The most uncertain steps of every row, and their states as views."""
    steps = built(SELECTORS, "entropy", steps=states)(made, Key(SEED, 0, "select"))
    likelihood = built(LIKELIHOODS, "denoising_steps")
    return steps, likelihood.plan(made, steps, Key(SEED, 0, "views"), 1)


def whole_answer(made: Rollout) -> Views:
    """One view in which the whole answer is hidden and scored, as one unit."""
    answer_BKL = made.answer_BL.unsqueeze(1)
    one_B1 = torch.ones(len(answer_BKL), 1, device=answer_BKL.device)
    zero = torch.zeros_like(answer_BKL, dtype=torch.long)
    return Views(
        answer_BKL, answer_BKL, answer_BKL.float(), zero, made.length_B.float().unsqueeze(1),
        one_B1, torch.zeros_like(one_B1, dtype=torch.long), made.temperature,
    )  # fmt: skip


def gradient(score_BKL: Tensor) -> Tensor:
    """A gradient of a loss at the log-probs: random, 0 where nothing is scored."""
    B, K, L = score_BKL.shape
    drawn = Key(SEED, 0, "gradient").uniform(torch.arange(B), K, L).to(score_BKL.device)
    return torch.where(score_BKL, drawn - 0.5, 0.0)
