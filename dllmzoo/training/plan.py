"""The dry run: what a round of a recipe costs, before any weights are loaded."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dllmzoo.recipe.recipe import Recipe
from dllmzoo.training.cost import Plan, flops_of
from dllmzoo.training.prompts import Codec
from dllmzoo.training.reads import Read

EFFICIENCY = 0.3
"""Share of the measured matrix-product speed that training reaches; a rule of thumb."""
GUESSED_PROMPT = 200
"""Prompt tokens assumed where the tokenizer is not on this machine."""


@dataclass(frozen=True)
class Work:
    """What a round of a recipe runs, on all processes together.

    Args:
        config: of the network.
        prompt: tokens of the longest of a few prompts.
        samples: answers.
        rollout: forwards of the sampler, at most.
        scored: forwards without gradient.
        trained: forwards with a backward.
        updates: optimiser updates.
        size: tokens of a block of the network's attention; None = it has none.
    """

    config: Any
    prompt: int
    samples: int
    rollout: list[Read]
    scored: Read
    trained: Read
    updates: int
    size: int | None

    @property
    def rollout_rows(self) -> int:
        """Rows of the sampler's forwards."""
        return sum(read.rows for read in self.rollout)


def work_of(recipe: Recipe) -> Work:
    """The work of a round; reads config and tokenizer, never weights."""
    config = config_of(recipe)
    size = _block_size(config)
    samples, score_rows, train_rows = _rows(recipe, size)
    prompt, answer = _prompt_length(recipe), recipe.sampler.answer_length
    rollout = _rollout(recipe, 0 if recipe.stage == "sft" else samples, prompt, size)
    target = 0 if size is None else _target(recipe, prompt, size)
    scored, trained = [
        Read(rows, prompt + answer, rows * answer, backward=backward, target=target)
        for rows, backward in ((score_rows, False), (train_rows, True))
    ]
    train = recipe.train
    updates = 1 if recipe.stage == "sft" else train.passes * train.minibatches
    return Work(config, prompt, samples, rollout, scored, trained, updates, size)


def plan(recipe: Recipe) -> Plan:
    """Forecast of a recipe on this machine."""
    work, train = work_of(recipe), recipe.train
    total = flops_of(work.config, recipe.model, [*work.rollout, work.scored, work.trained])
    calls = math.ceil(work.rollout_rows / train.rollout_batch)
    calls += math.ceil(work.scored.rows / train.micro_batch)
    calls += math.ceil(work.trained.rows / train.micro_batch)
    return Plan(
        work.samples, work.updates, work.rollout_rows, work.scored.rows, work.trained.rows, calls,
        total, total / (EFFICIENCY * machine_speed()), train.rounds, machine_name(),
        normaliser_of(recipe),
    )  # fmt: skip


def normaliser_of(recipe: Recipe) -> str:
    """What divides the loss of a recipe, in the words of its options."""
    if recipe.stage == "sft":
        return "answer tokens of all rows"
    loss = recipe.loss
    options = ("normaliser", "length_norm", "kl_normaliser", "kl_length_norm")
    said = [(name, getattr(loss, name, None)) for name in options]
    if not getattr(loss, "kl_coef", 0):
        said = said[:2]
    return "; ".join(f"{name}: {value}" for name, value in said if value is not None) or (
        Plan.normaliser
    )


def views_of(recipe: Recipe, block_size: int | None = None) -> int:
    """Views of a sample in one pass, at most; fewer where they hold all blocks of the network."""
    in_blocks = getattr(recipe.likelihood, "forwards_in_blocks", None)
    views = _views(recipe)
    return views if in_blocks is None or block_size is None else in_blocks(block_size, views)


def _views(recipe: Recipe) -> int:
    fixed = recipe.likelihood.num_forwards
    if fixed is not None:
        return fixed
    if not recipe.likelihood.uses_steps:  # a view for each answer token
        return recipe.sampler.answer_length
    steps = recipe.sampler.num_steps
    selected = getattr(recipe.selector, "num_selected", None)
    return selected(steps) if selected else getattr(recipe.selector, "steps", steps)


def config_of(recipe: Recipe) -> Any:
    """The network's config, without its weights."""
    from dllmzoo.models._load import family_class, fields_of_tokenizer, load_tokenizer
    from dllmzoo.models._source import read_config, resolve

    spec = recipe.model
    if spec.weights is not None:
        fields = _card_fields(spec.weights) or read_config(resolve(spec.weights))
        return family_class(fields, spec.name, spec.weights).config_class.from_dict(fields)
    ids = fields_of_tokenizer(load_tokenizer(spec.tokenizer or ""))
    return family_class({"model_type": spec.name}, spec.name, "model").config_class(
        **(ids | dict(spec.config or {}))
    )


def _card_fields(weights: str) -> dict[str, Any] | None:
    """The config that a model card states, so that no download is needed."""
    from dllmzoo import catalogue

    if weights not in catalogue.names("models"):
        return None
    card = catalogue.card("models", weights)
    if not card["config"]:
        return None
    known = ("vocab_size", "max_sequence_length", "mask_token_id", "eos_token_id", "pad_token_id")
    return {"model_type": card["family"], **{n: card[n] for n in known}, **card["config"]}


def _block_size(config: Any) -> int | None:
    """Tokens of a block of the network's attention; None = every token sees every token."""
    if getattr(config, "attention", None) != "block_causal":
        return None
    return config.block_size


def _rollout(recipe: Recipe, samples: int, prompt: int, size: int | None) -> list[Read]:
    """What the sampler reads for some samples, at most."""
    sampler = recipe.sampler
    planned = getattr(sampler, "planned_reads", None)
    needs_size = getattr(sampler, "needs_blocks", False) and size is None
    reads = () if planned is None or needs_size else planned(prompt, size)
    if not reads:
        rows = samples * getattr(sampler, "num_forwards", sampler.num_steps)
        return [Read(rows, prompt + sampler.answer_length, rows * sampler.answer_length)]
    return [
        Read(samples * rows, queries, samples * logits, keys=None if keys == queries else keys)
        for rows, queries, keys, logits in reads
    ]


def _target(recipe: Recipe, prompt: int, size: int) -> int:
    """Columns of the noised stream where the network has blocks; 0 where one stream is read."""
    answer = recipe.sampler.answer_length
    if recipe.stage == "sft":
        return answer + (prompt % size if recipe.sft.completion_only else prompt)
    return answer + prompt % size if getattr(recipe.likelihood, "needs_blocks", False) else 0


def _rows(recipe: Recipe, block_size: int | None) -> tuple[int, int, int]:
    """Samples of a round, and model rows that are scored and trained in it."""
    train = recipe.train
    if recipe.stage == "sft":
        return train.prompts, 0, train.prompts
    samples = train.prompts * train.group_size
    views = views_of(recipe, block_size)
    plans = train.passes if recipe.likelihood.random else 1
    old = plans if recipe.loss.needs_old else 1
    reference = plans if recipe.loss.needs_reference else 0
    again = train.passes - (1 / train.minibatches if recipe.likelihood.shares_masks else 0)
    if recipe.loss.needs_exact_kl:  # policy and reference in every sweep, and the latter in replay
        again = 3 * train.passes
    scored = samples * views * (old + reference + again)
    return samples, round(scored), samples * views * train.passes


def _prompt_length(recipe: Recipe) -> int:
    from huggingface_hub import try_to_load_from_cache

    from dllmzoo.models._load import CHARACTERS, load_tokenizer
    from dllmzoo.models._source import resolve, split_revision

    spec = recipe.model.tokenizer or recipe.model.weights or ""
    here = spec.startswith(CHARACTERS) or Path(spec).expanduser().is_dir()
    where = "" if here else resolve(spec)
    if isinstance(where, str) and where:
        name, revision = split_revision(where)
        if not try_to_load_from_cache(name, "tokenizer_config.json", revision=revision):
            return GUESSED_PROMPT
    tokenizer = load_tokenizer(spec)
    codec = Codec(tokenizer, 0, (0,))
    return max(len(codec.prompt_ids(recipe.task.prompt(e))) for e in recipe.task.test(8))


def machine_name() -> str:
    """The device that `machine_speed` measures."""
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, one of this machine"
    return f"this machine's processor, {torch.get_num_threads()} threads"


def machine_speed(size: int = 1024, seconds: float = 0.1) -> float:
    """FLOPs per second of a float32 matrix product on this machine, measured now."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.ones(size, size, device=device)
    best, until = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        float((a @ a)[0, 0])
        best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best
