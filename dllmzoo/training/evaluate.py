"""Greedy evaluation on held-out examples, each counted exactly once, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy, Ratio, Sampler, Task
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.records import Example, Key
from dllmzoo.training.prompts import Codec

Z95 = 1.959964


@dataclass(frozen=True)
class Evaluation:
    """Outcome of one evaluation.

    Args:
        metrics: name -> rate; the primary one also as `NAME_low`, `NAME_high` (95 %, Wilson).
        solved: of each example, whether the primary metric hit.
        texts: the answers.
        examples: what was asked.
        forwards: model rows that ran, the short ones of a cache included.
    """

    metrics: dict[str, float | None]
    solved: list[bool]
    texts: list[str]
    examples: list[Example]
    forwards: int


def evaluator(recipe: Recipe) -> Sampler:
    """The sampler that answers in evaluations: `evaluate.sampler`, else the one of training.

    Raises:
        UsageError: it asks no policy.
    """
    sampler = recipe.sampler if recipe.evaluate.sampler is None else recipe.evaluate.sampler
    if getattr(sampler, "given", None) == "answers":
        raise UsageError(
            "the sampler hands out answers of the data, so it says nothing about a model; name "
            "another: evaluate.sampler={name: low_confidence, answer_length: ..., steps: ...}"
        )
    return sampler


def steps_field(sampler: Any) -> str:
    """The field of a sampler that `evaluate.steps` sets."""
    return getattr(sampler, "steps_field", "steps")


def greedy(sampler: Sampler, steps: int | None = None) -> Sampler:
    """The sampler at temperature 0, with another number of denoising steps if given.

    A number of steps replaces a confidence threshold that leaves no room for it: evaluation is then
    static. Drafts are not stored, since nothing reads them.
    """
    changes: dict[str, Any] = {"temperature": 0.0}
    if getattr(sampler, "record_drafts", False) and not getattr(sampler, "remasks", False):
        changes["record_drafts"] = False
    if steps is not None:
        changes[name := steps_field(sampler)] = steps
        if name == "steps" and getattr(sampler, "threshold", None) is not None:
            changes["threshold"] = None
    return replace(sampler, **changes)  # type: ignore[type-var]


@torch.no_grad()
def evaluate(
    policy: Policy,
    codec: Codec,
    task: Task,
    sampler: Sampler,
    *,
    examples: Sequence[Example],
    batch: int,
    accelerator: Any = None,
) -> Evaluation:
    """Answer every example once and score the answers with the task's own parser.

    Args:
        policy: the network, unwrapped.
        codec: text to tokens and back.
        task: prompts and metrics.
        sampler: usually `greedy(evaluator(recipe))`.
        examples: all of them, on every process.
        batch: rows of one sampler call.
        accelerator: shares the examples among processes; None = one process.
    """
    rank, world = (0, 1)
    if accelerator is not None:
        rank, world = accelerator.process_index, accelerator.num_processes
    policy.eval()  # type: ignore[attr-defined]
    mine = list(range(rank, len(examples), world))
    texts: list[str] = []
    forwards = 0
    key = Key(0, 0, "evaluate")
    length: int = sampler.answer_length  # type: ignore[attr-defined]
    for start in range(0, len(mine), batch):
        part = mine[start : start + batch]
        prompts = codec.prompts(task, [examples[i] for i in part], 1, answer_length=length)
        prompts = replace(prompts, sample_B=torch.tensor(part, device=prompts.sample_B.device))
        prompts = codec.with_given(prompts, task, sampler, key.sub("given"))
        rollout = sampler(policy, prompts, key)
        texts += codec.texts(rollout.tokens_BL[:, -length:])
        forwards += rollout.forwards
    pairs = list(zip(mine, texts, strict=True))
    if world > 1:
        from accelerate.utils import gather_object

        pairs = gather_object(pairs)
        forwards = sum(gather_object([forwards]))
    answers = [text for _, text in sorted(pairs)]
    ratios = task.metrics(answers, examples)
    return Evaluation(
        _metrics(ratios, task.primary), [hit > 0.5 for hit in ratios[task.primary].hits], answers,
        list(examples), forwards,
    )  # fmt: skip


def _metrics(ratios: dict[str, Ratio], primary: str) -> dict[str, float | None]:
    metrics: dict[str, float | None] = {}
    for name, ratio in ratios.items():
        metrics[name] = ratio.value
        if name == primary:
            low, high = wilson(sum(ratio.hits), sum(ratio.outof))
            metrics |= {f"{name}_low": low, f"{name}_high": high}
    return metrics


def wilson(hits: float, outof: float) -> tuple[float, float]:
    """95 % interval of a rate (Wilson, 1927); (0, 1) of nothing.

    Example:
        >>> low, high = wilson(50, 100)
        >>> round(low, 3), round(high, 3)
        (0.404, 0.596)
    """
    if outof <= 0:
        return 0.0, 1.0
    rate, square = hits / outof, Z95**2
    middle = (rate + square / (2 * outof)) / (1 + square / outof)
    spread = math.sqrt(rate * (1 - rate) / outof + square / (4 * outof**2))
    spread *= Z95 / (1 + square / outof)
    return max(middle - spread, 0.0), min(middle + spread, 1.0)


def paired(before: Sequence[bool], after: Sequence[bool]) -> tuple[float, float, float]:
    """Difference of two solved rates on the same examples, with its 95 % interval.

    The normal interval of the mean of per-example differences: examples that both solve or both
    miss add no variance. Lists of unlike length share their first examples, which are compared.

    Example:
        >>> paired([False, False, True, True], [True, False, True, True])[0]
        0.25
    """
    gains = [float(b) - float(a) for a, b in zip(before, after, strict=False)]
    number = max(len(gains), 1)
    mean = sum(gains) / number
    variance = sum((gain - mean) ** 2 for gain in gains) / max(number - 1, 1)
    spread = Z95 * math.sqrt(variance / number)
    return mean, mean - spread, mean + spread
