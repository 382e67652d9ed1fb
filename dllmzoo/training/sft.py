"""Supervised masked-diffusion training: predict what was masked in demonstrations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dllmzoo.errors import TaskError, UsageError
from dllmzoo.protocols import Schedule, Task
from dllmzoo.records import Key, Rollout, Views
from dllmzoo.scoring import replay
from dllmzoo.training.measured import measure
from dllmzoo.training.meter import Meter
from dllmzoo.training.method import Budget, Learner
from dllmzoo.training.packing import ByDocument, as_read, pack
from dllmzoo.training.prompts import Demonstrated, Tail, TooLong
from dllmzoo.training.update import step

Noise = Literal["auto", "row", "block"]
"""What has a noise level of its own; `auto` = blocks where the network has them, else rows."""


@dataclass(frozen=True)
class Demonstrations:
    """What supervised training needs: data, canvas, noise, rows. See `recipe.sections.Sft`."""

    task: Task
    answer_length: int
    schedule: Schedule
    completion_only: bool = True
    min_mask: float = 0.05
    noise: Noise = "auto"
    tail: Tail = "canvas"
    too_long: TooLong = "refuse"
    pack: int | None = None


def train(
    data: Demonstrations, budget: Budget, learner: Learner, *, seed: int, rounds: range
) -> Iterator[tuple[int, Meter, None]]:
    """Yield each round (one update) with its metrics.

    The loss is the negative ELBO per answer token: masks are drawn at one noise level per row, or
    per block of a network that attends in blocks (BD3-LM, arXiv:2503.09573), which reads clean
    and noised tokens in one pass; the terms of masked slots weigh rate(t) / max(m(t), min_mask).
    """
    if rounds:
        measure(data, learner.codec, quiet=not learner.accelerator.is_main_process)
    for round in rounds:
        meter = Meter(learner.accelerator, budget.micro_batch)
        drawn = _share(data, budget, learner, Key(seed, round, "prompts"))
        policy = learner.accelerator.unwrap_model(learner.policy)
        rollout = as_rollout(data, drawn, policy.block_size)
        with meter.time("update"):
            views = noise(data, rollout, Key(seed, round, "views"))
            counts = {"targets": _targets(data, rollout).sum(), "real": rollout.attend_BL.sum()}
            total = meter.total(counts | {"dropped": (~drawn.kept_B).sum()})
            if not total["targets"]:
                raise TaskError(
                    f"each of the {budget.prompts} demonstrations of round {round} is too long; "
                    f"raise `sampler.answer_length`, or use a model that reads longer sequences"
                )
            scale = 1 / total["targets"]
            masked = float(views.score_BKL.sum()), float(counts["real"])
            worth = float(learner.accelerator.num_processes)
            reader: Any = learner.policy.train()
            if data.pack is not None:
                rollout, views = pack(rollout, views, data.pack)
                reader = ByDocument.of(learner.policy, policy)
            grad_BKL = -views.weight_BKL * views.score_BKL * scale
            logprob_BKL = replay(
                reader, as_read(rollout), views, grad_BKL * worth, micro_batch=budget.micro_batch,
                accelerator=learner.accelerator,
            )  # fmt: skip
            value = (grad_BKL * logprob_BKL).sum()
            norm = step(learner, budget.max_grad_norm, meter.total({"loss": value})["loss"])
        share = 1 / learner.accelerator.num_processes
        meter.add("loss", float(value), share)
        meter.add("grad_norm", norm * share, share)
        meter.add("masked_share", *masked)
        if data.too_long == "drop":
            meter.add("dropped", total["dropped"] * share, share)
        meter.scored(views, rollout, backward=True)
        yield round, meter, None


def noise(data: Demonstrations, rollout: Rollout, key: Key) -> Views:
    """One masked view of each row; masks depend on the key and the row's sample id alone."""
    t_BL = noise_levels(data, rollout, key)
    mask_BL = data.schedule.mask_prob(t_BL)
    uniform_BL = rollout.slot_uniform(key.sub("slots"))
    hide_BL = (uniform_BL < mask_BL) & _targets(data, rollout)
    weight_BL = data.schedule.rate(t_BL) / mask_BL.clamp(min=data.min_mask)
    one_B1 = torch.ones_like(t_BL[:, :1])
    return Views(
        hide_BL.unsqueeze(1), hide_BL.unsqueeze(1), weight_BL.unsqueeze(1),
        torch.zeros_like(rollout.tokens_BL).unsqueeze(1),
        one_B1, one_B1, torch.zeros_like(one_B1, dtype=torch.long),
        layout="full" if rollout.block_size is None else "dual_stream",
    )  # fmt: skip


def noise_levels(data: Demonstrations, rollout: Rollout, key: Key) -> Tensor:
    """Noise level t in (0, 1] of every slot, (B, L): one number a row, or one a block.

    The levels of the n blocks of a row that hold a target stand 1/n apart on a circle, at a random
    place: each is uniform, and together they spread evenly, which lowers the variance of the loss.
    """
    drawn_B1 = key.uniform(rollout.sample_B, 1).to(rollout.tokens_BL.device)
    if data.noise == "row" or (data.noise == "auto" and rollout.block_size is None):
        return 1 - drawn_B1.expand(rollout.tokens_BL.shape)
    if rollout.block_size is None:
        raise UsageError(
            "sft.noise: block needs a network that attends in blocks, and this one has none; use "
            "sft.noise: row, or a block model such as sdar with attention: block_causal"
        )
    block_BL = rollout.block_BL.clamp(min=0)
    target_BL = _targets(data, rollout)
    first_B1 = torch.where(target_BL, block_BL, block_BL.amax()).amin(1, keepdim=True)
    last_B1 = torch.where(target_BL, block_BL, 0).amax(1, keepdim=True)
    count_B1 = (last_B1 - first_B1 + 1).clamp(min=1)  # a row without a target has none
    return 1 - (drawn_B1 + (block_BL - first_B1) / count_B1) % 1


def _targets(data: Demonstrations, rollout: Rollout) -> Tensor:
    """Slots that may be hidden, bool (B, L); none of a row that was dropped."""
    if data.completion_only:
        return rollout.valid_BL
    return rollout.attend_BL & rollout.valid_BL.any(1, keepdim=True)


def as_rollout(data: Demonstrations, drawn: Demonstrated, block_size: int | None = None) -> Rollout:
    """Demonstrations as a rollout that no sampler made; what is valid is learnt."""
    prompts = drawn.prompts
    tokens_BL = torch.cat([prompts.tokens_BL, drawn.answer_BN], 1)
    answer_BL = torch.cat([torch.zeros_like(prompts.attend_BL), drawn.real_BN], 1)
    zero_BL = torch.zeros_like(tokens_BL, dtype=torch.float)
    return Rollout(
        tokens_BL, torch.cat([prompts.attend_BL, drawn.real_BN], 1), answer_BL,
        answer_BL & drawn.kept_B.unsqueeze(1), torch.full_like(tokens_BL, -1), zero_BL, zero_BL,
        zero_BL, zero_BL[:, :0], prompts.group_B, prompts.sample_B, prompts.examples, 0, data,
        block_size=block_size,
    )  # fmt: skip


def _share(data: Demonstrations, budget: Budget, learner: Learner, key: Key) -> Demonstrated:
    """This process's share of the round's demonstrations."""
    accelerator = learner.accelerator
    share = budget.prompts // accelerator.num_processes
    first = share * accelerator.process_index
    examples = data.task.draw(budget.prompts, key)[first : first + share]

    def widest(length: int) -> int:
        if accelerator.num_processes == 1:
            return length
        each = torch.tensor([length], device=accelerator.device)
        return int(torch.as_tensor(accelerator.gather(each)).max())

    return learner.codec.demonstrations(
        data.task, examples, key.sub("answers"), answer_length=data.answer_length, first=first,
        tail=data.tail, too_long=data.too_long, row_length=data.pack, widest=widest,
    )  # fmt: skip
