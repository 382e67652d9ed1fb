"""From a checked recipe to what is trained: networks, optimiser, schedule, processes, codec."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dllmzoo.errors import UsageError
from dllmzoo.models import _load as loading
from dllmzoo.models._compiled import compile_blocks
from dllmzoo.models._lora import FrozenCopy, add_lora, reference_policy
from dllmzoo.models._sharded import shard
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.recipe.sections import Optimizer, Train
from dllmzoo.training.method import Budget, Learner, Method
from dllmzoo.training.processes import join_processes, sharding_of
from dllmzoo.training.prompts import Codec
from dllmzoo.training.rollout_copy import RolloutCopy
from dllmzoo.training.sft import Demonstrations

SCHEDULES = {
    "constant": "constant_with_warmup",
    "linear": "linear",
    "cosine": "cosine",
    "constant_with_decay": "warmup_stable_decay",
}


def make_accelerator(train: Train, folder: Path | None = None) -> Any:
    """The processes of the run; refuses what a run cannot be spread over.

    Args:
        train: how many prompts are shared, and which trackers are told.
        folder: where trackers that write files put them.

    Raises:
        UsageError: `train.prompts` is no multiple of the number of processes, a tracker is not
            installed, or the launcher asks for what is not supported.
    """
    for tracker in train.trackers:
        if find_spec(tracker) is None:
            raise UsageError(
                f"train.trackers names {tracker}, which is not installed: pip install {tracker}"
            )
    accelerator = join_processes(log_with=list(train.trackers) or None, project_dir=folder)
    sharding_of(accelerator)
    world = accelerator.num_processes
    if train.prompts % world:
        low = train.prompts // world * world
        raise UsageError(
            f"train.prompts is {train.prompts}, which {world} processes cannot share evenly; "
            f"the nearest numbers that fit are {low or world} and {low + world}"
        )
    return accelerator


def make_learner(
    recipe: Recipe, accelerator: Any, *, policy: Any = None, tokenizer: Any = None
) -> Learner:
    """Load or build the policy, its reference, optimiser and schedule.

    Args:
        recipe: a checked recipe.
        accelerator: of the run.
        policy: a model in memory instead of `model.weights`.
        tokenizer: the tokenizer that goes with it.
    """
    spec, sharding = recipe.model, sharding_of(accelerator)
    if sharding is not None and spec.quantize is not None:
        raise UsageError(
            "model.quantize: 4bit cannot be sharded: its packed weights have no shards; launch "
            "plain data parallel processes (recipes/_accelerate/ddp.yaml)"
        )
    if tokenizer is None:
        tokenizer = loading.load_tokenizer(spec.tokenizer or spec.weights or "")
    if policy is None:
        dtype = getattr(torch, spec.dtype)
        placed = None if spec.quantize is None else {"": accelerator.device}
        if spec.weights is not None:
            policy = loading.load_model(
                spec.weights, dtype=dtype, name=spec.name, tokenizer=tokenizer,
                quantize=spec.quantize, device_map=placed,
            )  # fmt: skip
        else:
            policy = loading.build_model(spec.name, spec.config or {}, tokenizer, recipe.seed)
            policy = policy.to(dtype)
    codec = Codec(
        tokenizer, policy.mask_id, tuple(policy.stop_ids),
        getattr(policy.config, "max_sequence_length", None), accelerator.device,
    )  # fmt: skip
    if spec.gradient_checkpointing:
        network: Any = policy
        if hasattr(network, "activation_checkpointing_enable"):
            network.activation_checkpointing_enable()
        else:  # as it was called in transformers 5.0
            network.gradient_checkpointing_enable()
    needed = recipe.stage == "rl" and (recipe.loss.needs_reference or recipe.loss.needs_exact_kl)
    if spec.lora is not None:
        policy = add_lora(policy, spec.lora, recipe.seed)
    if sharding is None and spec.quantize is None:
        policy = policy.to(accelerator.device)
    away = spec.reference_device == "cpu"
    visits = accelerator.device if away and sharding is None else None
    reference: Any = reference_policy(policy, spec.reference, visits) if needed else None
    copied: Any = reference
    if sharding is not None:
        kept = replace(sharding, offload=sharding.offload or away)
        if isinstance(copied, FrozenCopy):
            shard(copied.model, kept, accelerator.device)
        shard(policy, sharding, accelerator.device)
    rollouts = None
    if recipe.stage == "rl" and recipe.train.rollout_dtype not in (None, spec.dtype):
        rollouts = RolloutCopy(policy, getattr(torch, recipe.train.rollout_dtype))
    if spec.compile:
        if sharding is not None:
            raise UsageError(
                "model.compile is not made for sharded parameters; leave it out, or launch plain "
                "data parallel processes (recipes/_accelerate/ddp.yaml)"
            )
        copies = [each for each in (copied, rollouts) if isinstance(each, FrozenCopy | RolloutCopy)]
        for network in (policy, *(each.model for each in copies)):
            compile_blocks(network)
    optimizer = make_optimizer(policy, recipe.optimizer)
    scheduler = make_scheduler(optimizer, recipe.optimizer, updates(recipe))
    if sharding is None:
        policy, optimizer = accelerator.prepare(policy, optimizer)
    return Learner(policy, reference, optimizer, scheduler, accelerator, codec, rollouts)


def make_optimizer(policy: nn.Module, options: Optimizer) -> torch.optim.Optimizer:
    """AdamW; weight decay on matrices only."""
    trained = [p for p in policy.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=options.lr,
        betas=options.betas,
        eps=options.eps,
    )


def make_scheduler(optimizer: torch.optim.Optimizer, options: Optimizer, updates: int) -> Any:
    """Learning rate as a function of the update counter."""
    from transformers import get_scheduler

    extra = {}
    if options.schedule == "constant_with_decay":
        extra["num_decay_steps"] = max(round(options.decay_share * updates), 1)
    return get_scheduler(
        SCHEDULES[options.schedule], optimizer, num_warmup_steps=options.warmup,
        num_training_steps=updates, scheduler_specific_kwargs=extra,
    )  # fmt: skip


def updates(recipe: Recipe) -> int:
    """Optimiser updates of the whole run."""
    train = recipe.train
    return train.rounds * (1 if recipe.stage == "sft" else train.passes * train.minibatches)


def budget_of(recipe: Recipe) -> Budget:
    """The counts that the loop reads."""
    train = recipe.train
    return Budget(
        train.prompts, train.group_size, train.passes, train.minibatches, train.micro_batch,
        train.rollout_batch, recipe.optimizer.max_grad_norm, train.log_drift,
    )  # fmt: skip


def method_of(recipe: Recipe) -> Method:
    """The parts that the loop joins."""
    return Method(
        recipe.task, recipe.sampler, recipe.selector, recipe.likelihood, recipe.advantage,
        recipe.loss,
    )  # fmt: skip


def demonstrations_of(recipe: Recipe) -> Demonstrations:
    """What supervised training reads of a recipe."""
    sft = recipe.sft
    return Demonstrations(
        recipe.task, recipe.sampler.answer_length, sft.schedule, sft.completion_only, sft.min_mask,
        sft.noise, sft.tail, sft.too_long, sft.pack,
    )  # fmt: skip


def parameter_counts(parameters: Iterable[nn.Parameter]) -> tuple[int, int]:
    """Trainable and all parameters."""
    trained = total = 0
    for parameter in parameters:
        total += parameter.numel()
        trained += parameter.numel() if parameter.requires_grad else 0
    return trained, total
