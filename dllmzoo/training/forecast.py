"""What a recipe would need on GPUs that are not here: an estimate from bytes and FLOPs alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dllmzoo.flops import Shape, shape_of
from dllmzoo.models._load import family_class
from dllmzoo.models._lora import add_lora
from dllmzoo.models._sharded import blocks
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.training.cost import flops_of
from dllmzoo.training.gpus import Gpu
from dllmzoo.training.plan import Work, work_of
from dllmzoo.training.reads import Read

UTILISATION = 0.4
"""Share of the peak FLOP/s that large matrix products of a transformer reach; a rule of thumb."""
USABLE = 0.92
"""Share of the memory that a process may fill: the rest is the driver's and fragments."""
FOUR_BITS = 0.53
"""Bytes of a weight of a 4-bit base: its 4 bits, and its share of twice quantised scales."""


@dataclass(frozen=True)
class Counts:
    """Parameters of a network.

    Args:
        all: adapters included.
        trained: those with a gradient.
        inside: of all blocks, adapters left out: what a 4-bit base shrinks.
        block: of the largest block.
    """

    all: int
    trained: int
    inside: int
    block: int


@dataclass(frozen=True)
class Forecast:
    """An estimate for one process of a layout.

    Args:
        sharded: parameters are spread over the GPUs (FSDP2); else each holds them all (DDP).
        memory: what takes how many bytes of one GPU at the worst moment.
        available: bytes of it that may be filled.
        seconds: of each phase of a round.
        advice: what to change where it does not fit.
    """

    sharded: bool
    memory: dict[str, float]
    available: float
    seconds: dict[str, float]
    advice: list[str]

    @property
    def total(self) -> float:
        """Bytes of all parts together."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether they may be filled."""
        return self.total <= self.available

    @property
    def round(self) -> float:
        """Seconds of a round."""
        return sum(self.seconds.values())


def forecasts(recipe: Recipe, gpu: Gpu, gpus: int) -> list[Forecast]:
    """Both layouts; one GPU has nobody to share with. Loads and downloads no weights."""
    work = work_of(recipe)
    counts = count(recipe, work.config)
    layouts = (False,) if gpus == 1 else (False, True)
    return [_forecast(recipe, work, counts, gpu, gpus, sharded) for sharded in layouts]


def count(recipe: Recipe, config: Any) -> Counts:
    """Parameters by building the network without memory for its weights."""
    cls = family_class({"model_type": config.model_type}, None, "model")
    with torch.device("meta"):
        network: Any = cls(config)
        inside = sum(p.numel() for block in blocks(network) for p in block.parameters())
        if recipe.model.lora is not None:
            network = add_lora(network, recipe.model.lora, recipe.seed)
    parameters = list(network.parameters())
    return Counts(
        sum(p.numel() for p in parameters),
        sum(p.numel() for p in parameters if p.requires_grad),
        inside,
        max(sum(p.numel() for p in block.parameters()) for block in blocks(network)),
    )


def _forecast(
    recipe: Recipe, work: Work, counts: Counts, gpu: Gpu, gpus: int, sharded: bool
) -> Forecast:
    memory = _memory(recipe, work, counts, gpus, sharded)
    seconds = _seconds(recipe, work, counts, gpu, gpus, sharded)
    available = USABLE * gpu.memory
    advice = [] if sum(memory.values()) <= available else _advice(recipe, memory, gpus, sharded)
    return Forecast(sharded, memory, available, seconds, advice)


def _memory(
    recipe: Recipe, work: Work, counts: Counts, gpus: int, sharded: bool
) -> dict[str, float]:
    """Bytes of one process, by what they hold."""
    model, train, shape = recipe.model, recipe.train, shape_of(work.config)
    width = _width(model.dtype)
    held = _weight_bytes(model, counts)
    own = 4 if model.lora is not None else width  # peft keeps adapters in float32
    trained = counts.trained * own
    parts = gpus if sharded else 1
    copies = trained if gpus > 1 and not sharded else 0  # the buckets in which DDP exchanges them
    memory: dict[str, float] = {
        "weights": held / parts,
        "gradients": (trained + copies) / parts,
        "optimiser": 2 * trained / parts,
    }
    if _copied_reference(recipe) and model.reference_device == "same":
        memory["reference"] = held / parts
    if recipe.stage == "rl" and train.rollout_dtype not in (None, model.dtype):
        memory["rollout copy"] = counts.all * _width(str(train.rollout_dtype))
    if sharded:  # two blocks at a time, and what stands outside of blocks
        outside = counts.all - counts.trained * (model.lora is not None) - counts.inside
        memory["gathered blocks"] = (2 * counts.block + outside) * width
    rows = min(train.micro_batch, max(work.trained.rows // gpus, 1))
    memory["activations"] = _activations(recipe, shape, work.trained, rows, width)
    answer, vocabulary = recipe.sampler.answer_length, shape.vocabulary
    memory["logits in training"] = rows * answer * vocabulary * (width + 4 + 4)
    if work.rollout:
        batch = min(train.rollout_batch, max(work.samples // gpus, 1))
        block = getattr(recipe.sampler, "block_length", None) or work.size or answer
        rolling = batch * min(block, answer) * vocabulary * (width + 4 + 4)
        blocks = getattr(recipe.sampler, "cache", False) and work.size is not None
        if blocks or getattr(recipe.sampler, "needs_canvas_cache", False):
            narrow = shape.linears[1].outputs + shape.linears[2].outputs
            rolling += batch * (work.prompt + answer) * shape.layers * narrow * width
        training = memory["activations"] + memory["logits in training"]
        memory["sampling beyond training"] = max(rolling - training, 0)
    return memory


def _activations(recipe: Recipe, shape: Shape, read: Read, rows: int, width: int) -> float:
    """What layers keep of a micro-batch for the backward pass."""
    tokens = rows * (read.length + read.target)
    everything = sum(layer.inputs + layer.outputs for layer in shape.linears)
    if recipe.model.gradient_checkpointing:
        return tokens * width * (shape.layers * shape.width + everything)
    return tokens * width * shape.layers * everything


def _seconds(
    recipe: Recipe, work: Work, counts: Counts, gpu: Gpu, gpus: int, sharded: bool
) -> dict[str, float]:
    """Of each phase of a round: what computing, reading weights or gathering them takes."""
    model, train = recipe.model, recipe.train
    peak = gpu.bfloat16 if model.dtype == "bfloat16" else gpu.float32
    moved = _weight_bytes(model, counts)
    phases = (
        ("rollout", work.rollout, work.rollout_rows, train.rollout_batch, 1),
        ("score", [work.scored], work.scored.rows, train.micro_batch, 1),
        ("update", [work.trained], work.trained.rows, train.micro_batch, 3),
    )
    seconds = {}
    for name, reads, rows, batch, passes in phases:
        if rows == 0:
            continue
        computing = flops_of(work.config, model, reads) / gpus / (UTILISATION * peak)
        calls = math.ceil(rows / gpus / batch) * passes
        reading = calls * moved / gpu.bandwidth
        gathering = calls * moved * (1 - 1 / gpus) / gpu.link if sharded else 0.0
        seconds[name] = max(computing, reading, gathering)
    return seconds


def _weight_bytes(model: Any, counts: Counts) -> float:
    """Bytes of the whole network as it is held."""
    width = _width(model.dtype)
    if model.lora is None:
        return counts.all * width
    base = counts.all - counts.trained
    inside = FOUR_BITS if model.quantize == "4bit" else width
    return counts.inside * inside + (base - counts.inside) * width + counts.trained * 4


def _copied_reference(recipe: Recipe) -> bool:
    """Whether a frozen copy of the network is held."""
    model = recipe.model
    if recipe.stage == "sft" or not (recipe.loss.needs_reference or recipe.loss.needs_exact_kl):
        return False
    return model.reference == "copy" or (model.reference == "auto" and model.lora is None)


def _advice(recipe: Recipe, memory: dict[str, float], gpus: int, sharded: bool) -> list[str]:
    """Changes that save memory, the largest part first."""
    model, train = recipe.model, recipe.train
    fixed = ("weights", "gradients", "optimiser", "reference")
    cures: dict[str, Sequence[tuple[bool, str]]] = {
        "gradients": [(model.lora is None, "train adapters: model.lora: {rank: 64}")],
        "optimiser": [(model.lora is None, "train adapters: model.lora: {rank: 64}")],
        "weights": [
            (model.dtype == "float32", "model.dtype: bfloat16"),
            (model.lora is not None and not sharded and model.quantize is None,
             "model.quantize: 4bit"),
        ],
        "reference": [(True, "model.reference_device: cpu")],
        "activations": [
            (not model.gradient_checkpointing, "model.gradient_checkpointing: true"),
            (train.micro_batch > 1, f"train.micro_batch: {max(train.micro_batch // 2, 1)}"),
        ],
        "logits in training": [
            (train.micro_batch > 1, f"train.micro_batch: {max(train.micro_batch // 2, 1)}")
        ],
        "sampling beyond training": [
            (train.rollout_batch > 1, f"train.rollout_batch: {max(train.rollout_batch // 2, 1)}")
        ],
    }  # fmt: skip
    large = [name for name in memory if memory[name] > 0.05 * sum(memory.values())]
    order = sorted(large, key=lambda name: -memory[name])
    found = [text for name in order for wanted, text in cures.get(name, ()) if wanted]
    if sum(memory.get(name, 0.0) for name in fixed) > 0.5 * sum(memory.values()):
        more = "more GPUs" if sharded or gpus == 1 else "shards: launch with fsdp2.yaml"
        found.append(more)
    return list(dict.fromkeys(found))


def _width(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else 4
