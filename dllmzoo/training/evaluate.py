"""Evaluation on held-out examples, greedy or of several answers to each, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy, Sampler, Task
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.records import Example
from dllmzoo.training.answers import answers
from dllmzoo.training.pass_at_k import (
    Z95,
    interval_over_problems,
    pass_at_k,
    powers_of_two,
)
from dllmzoo.training.pass_at_k import wilson as wilson
from dllmzoo.training.prompts import Codec

Counts = Mapping[str, tuple[float, float]]
"""Metric -> (hits, out of) of one text."""


@dataclass(frozen=True)
class Evaluation:
    """Outcome of one evaluation; lists are in order of example, then sample.

    Args:
        metrics: name -> rate; the primary one also as `NAME_low`, `NAME_high` (95 %), and with
            several answers to each example `pass@1`, `pass@2`, `pass@4`, ... with such ends.
        solved: of each answer, whether the primary metric hit.
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
    """The sampler at temperature 0, with another number of denoising steps if given."""
    return answering(sampler, steps)


def answering(
    sampler: Sampler,
    steps: int | None = None,
    *,
    temperature: float = 0.0,
    answer_length: int | None = None,
) -> Sampler:
    """The sampler as evaluation uses it.

    A number of steps replaces a confidence threshold that leaves no room for it: evaluation is then
    static. Drafts are not stored, since nothing reads them.

    Args:
        sampler: of the recipe.
        steps: denoising steps, of a block if the sampler counts them so; None = its own.
        temperature: 0 = greedy.
        answer_length: N; None = its own.
    """
    changes: dict[str, Any] = {"temperature": temperature}
    if getattr(sampler, "record_drafts", False) and not getattr(sampler, "remasks", False):
        changes["record_drafts"] = False
    if answer_length is not None:
        changes["answer_length"] = answer_length
    if steps is not None:
        changes[name := steps_field(sampler)] = steps
        if name == "steps" and getattr(sampler, "threshold", None) is not None:
            changes["threshold"] = None
    return replace(sampler, **changes)  # type: ignore[type-var]


def evaluate(
    policy: Policy,
    codec: Codec,
    task: Task,
    sampler: Sampler,
    *,
    examples: Sequence[Example],
    batch: int,
    samples: int = 1,
    seed: int = 0,
    accelerator: Any = None,
) -> Evaluation:
    """Answer every example and score the answers with the task's own parser.

    Args:
        policy: the network, unwrapped.
        codec: text to tokens and back.
        task: prompts and metrics.
        sampler: usually `greedy(evaluator(recipe))`.
        examples: all of them, on every process.
        batch: rows of one sampler call.
        samples: answers to each example; more than one needs a sampler that draws.
        seed: of the random choices.
        accelerator: shares the rows among processes; None = one process.
    """
    found, forwards = [], 0
    for part, ran in answers(
        policy, codec, task, sampler, lambda texts, asked: counts(task, texts, asked),
        examples=examples, batch=batch, samples=samples, seed=seed, accelerator=accelerator,
    ):  # fmt: skip
        found += part
        forwards += ran
    counted = [each.verdict for each in found]
    names = task.metrics([], []) if not counted else counted[0]
    return Evaluation(
        metrics_of(counted, task.primary, samples, names),
        [each[task.primary][0] > 0.5 for each in counted], [each.text for each in found],
        [examples[each.item] for each in found], forwards,
    )  # fmt: skip


def counts(task: Task, texts: Sequence[str], examples: Sequence[Example]) -> list[Counts]:
    """What each text adds to the task's metrics."""
    ratios = task.metrics(texts, examples)
    return [
        {name: (ratio.hits[x], ratio.outof[x]) for name, ratio in ratios.items()}
        for x in range(len(texts))
    ]


def metrics_of(
    counted: Sequence[Counts], primary: str, samples: int, names: Iterable[str]
) -> dict[str, float | None]:
    """Rates of all answers, the primary one with an interval, and pass@k of several samples.

    One answer to each example: Wilson's interval. Several: the examples are what was drawn, so the
    interval is over examples, of the share of right answers to each; the same for pass@k. An
    answer that does not count is left out, and an example with fewer than k of them out of pass@k.

    Args:
        counted: of each answer, in order of example, then sample.
        primary: the metric with hits of 0 or 1 for each text.
        samples: answers to each example.
        names: the metrics.
    """
    metrics: dict[str, float | None] = {}
    for name in names:
        hits = sum(each[name][0] for each in counted)
        outof = sum(each[name][1] for each in counted)
        metrics[name] = hits / outof if outof else None
        if name == primary:
            low, high = wilson(hits, outof)
            if samples > 1:
                shares = [right / number for right, number in _problems(counted, name, samples)]
                low, high = interval_over_problems(shares, samples)
            metrics |= {f"{name}_low": low, f"{name}_high": high}
    if samples > 1:
        metrics |= _passes(_problems(counted, primary, samples), samples)
    return metrics


def _passes(problems: list[tuple[int, int]], samples: int) -> dict[str, float | None]:
    metrics: dict[str, float | None] = {}
    for k in powers_of_two(samples):
        values = [pass_at_k(number, right, k) for right, number in problems if number >= k]
        low, high = interval_over_problems(values, samples // k)
        mean = math.fsum(values) / len(values) if values else None
        metrics |= {f"pass@{k}": mean, f"pass@{k}_low": low, f"pass@{k}_high": high}
    return metrics


def _problems(counted: Sequence[Counts], name: str, samples: int) -> list[tuple[int, int]]:
    """Right and counted answers of each example that has any."""
    found = []
    for first in range(0, len(counted), samples):
        pairs = [each[name] for each in counted[first : first + samples] if each[name][1] > 0]
        if pairs:
            found.append((sum(hit > 0.5 for hit, _ in pairs), len(pairs)))
    return found


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
