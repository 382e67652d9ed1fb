"""What is trained, and what it takes: adapters, and bytes of one process."""

from __future__ import annotations

import os
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from dllmzoo.errors import ModelError
from dllmzoo.flops import shape_of
from dllmzoo.models._lora import FrozenCopy, lora_table
from dllmzoo.training.preflight._verdict import Subject, Verdict


def lora_coverage(subject: Subject) -> Verdict:
    """Every kind of layer that adapters were asked for has one in every block, and nothing else."""
    name, policy = "LoRA coverage", subject.policy
    trained = {n: p for n, p in policy.named_parameters() if p.requires_grad}
    count = sum(p.numel() for p in trained.values())
    if not isinstance(policy, PeftModel):
        if subject.recipe.model.lora is not None:
            return Verdict(
                name, "failed", "the recipe asks for adapters, and the policy has none",
                "remove model.lora, or do not hand over a policy of your own",
            )  # fmt: skip
        total = sum(p.numel() for p in policy.parameters())
        if count < total:
            return Verdict(
                name, "failed", f"only {count:,} of {total:,} parameters are trained",
                "no adapter is asked for, so every parameter must require a gradient",
            )  # fmt: skip
        return Verdict(name, "skipped", f"no adapters: all {total:,} parameters are trained")
    stray = [n for n in trained if ".lora_" not in n]
    if stray or not trained:
        what = f"{stray[0]} is trained" if stray else "nothing is trained"
        return Verdict(
            name, "failed", f"{what}, and adapters should be alone", "load the base weights anew"
        )
    *rows, total = lora_table(policy)
    blocks = getattr(policy.config, "num_hidden_layers", None)
    if isinstance(blocks, int) and (uneven := [row for row in rows if row.layers != blocks]):
        return Verdict(
            name, "failed",
            f"{uneven[0].kind} has adapters in {uneven[0].layers} of {blocks} blocks",
            "name layers by their kind (q_proj), or take a preset: lora: {preset: all-linear}",
        )  # fmt: skip
    kinds = ", ".join(f"{row.kind} x{row.layers}" for row in rows)
    return Verdict(name, "ok", f"{kinds}: {total.parameters:,} parameters in {total.layers} layers")


def memory(subject: Subject) -> Verdict:
    """Bytes of weights, gradients and optimiser, which are certain, and of a forward: a guess."""
    name, device = "memory", subject.device
    fixed, passing = held(subject), forward(subject)
    total, there = fixed + passing, capacity(device)
    said = (
        f"{_shown(fixed)} of weights, gradients and optimiser, and about {_shown(passing)} for a "
        f"forward and backward; {device.type} has {_shown(there)}"
    )
    if fixed > there:
        return Verdict(
            name, "failed", said,
            "train adapters (model.lora), use dtype: bfloat16, or shard over more devices",
        )  # fmt: skip
    if total > there:
        return Verdict(name, "undecided", f"{said}: lower train.micro_batch if it runs out")
    return Verdict(name, "ok", said)


def held(subject: Subject) -> int:
    """Bytes that stay: weights, a gradient and two moments of what is trained, a frozen copy."""
    parameters = list(subject.policy.parameters())
    weights = sum(map(_bytes, parameters))
    trained = sum(_bytes(p) for p in parameters if p.requires_grad)
    reference = subject.learner.reference
    copies = weights if isinstance(reference, FrozenCopy) else 0
    return weights + 3 * trained + copies


def forward(subject: Subject) -> int:
    """Bytes of one micro-batch: what layers keep for the backward, and logits in float32."""
    recipe, policy = subject.recipe, subject.policy
    answer = int(getattr(recipe.sampler, "answer_length", 0))
    prompt = max(len(each.prompt) for each in subject.canvases)
    rows = min(recipe.train.micro_batch, recipe.train.prompts * recipe.train.group_size)
    try:
        shape = shape_of(policy.config)
    except (ModelError, AttributeError):
        return 0
    tokens = rows * (prompt + answer) * (1 if shape.block_size is None else 2)
    widths = sum(layer.inputs + layer.outputs for layer in shape.linears)
    kept = shape.width if recipe.model.gradient_checkpointing else widths
    item = torch.empty(0, dtype=subject.dtype).element_size()
    return tokens * kept * shape.layers * item + 3 * 4 * rows * answer * shape.vocabulary


def capacity(device: torch.device) -> int:
    """Bytes of the device, or of main memory."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _bytes(parameter: Tensor) -> int:
    """Of this process's part of a tensor."""
    local: Any = getattr(parameter, "to_local", lambda: parameter)()
    return local.numel() * local.element_size()


def _shown(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.1f} MiB"
