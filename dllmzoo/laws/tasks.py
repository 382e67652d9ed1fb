"""Laws of tasks."""

from __future__ import annotations

from typing import Any

import torch

from dllmzoo.laws.case import Case
from dllmzoo.laws.law import (
    Report,
    check,
    law,
    require,
    same,
    untouched_global_generator,
)
from dllmzoo.records import ERROR, VALUE

Task = Any


def check_task(part: Any, *, cases: int = 10, seed: int = 0) -> Report:
    """Hold a task to every law of tasks; see `law.check`.

    Args:
        part: an instance; or a class that needs no data of the user's.
        cases: inputs of each law.
        seed: of the first one.
    """
    return check("task", part, cases=cases, seed=seed)


def _answers(task: Task, case: Case) -> tuple[list[str], list[Any]]:
    """Texts of every sort, right and wrong, with their examples."""
    examples = task.draw(case.integer("examples", 1, 6), case.key("prompts"))
    right = [task.answer(e, case.key("answer"), i) for i, e in enumerate(examples)]
    wrong = [case.among(f"wrong {i}", ("", "no idea", text[::-1])) for i, text in enumerate(right)]
    texts, doubled = right + wrong, [*examples, *examples]
    order = case.order("texts", len(texts)).tolist()
    return [texts[i] for i in order], [doubled[i] for i in order]


@law("task")
def draws_follow_the_key(task: Task, case: Case) -> None:
    """The key alone decides which examples a round draws; the global generator is not touched."""
    num = case.integer("examples", 1, 6)
    with untouched_global_generator():
        first = task.draw(num, case.key("prompts"))
        second = task.draw(num, case.key("prompts"))
    require(len(first) == num, f"{len(first)} examples, {num} were asked for")
    require([dict(e) for e in first] == [dict(e) for e in second], "two draws of one key differ")


@law("task")
def test_examples_are_fixed(task: Task, case: Case) -> None:
    """Held-out examples are always the same ones, and fewer are the first of them."""
    more, fewer = task.test(6), task.test(case.integer("fewer", 1, 5))
    require([dict(e) for e in fewer] == [dict(e) for e in more[: len(fewer)]], "they differ")


@law("task")
def no_test_prompt_is_trained_on(task: Task, case: Case) -> None:
    """No prompt of the held-out examples is drawn for training."""
    held_out = {repr(task.prompt(example)) for example in task.test(50)}
    drawn = [task.prompt(example) for example in task.draw(20, case.key("prompts"))]
    leaked = [prompt for prompt in drawn if repr(prompt) in held_out]
    require(not leaked, f"held out and trained on: {leaked[:1]}")


@law("task")
def prompts_are_text_or_messages(task: Task, case: Case) -> None:
    """A prompt is text that is not empty, or messages with `role` and `content`."""
    for example in task.draw(2, case.key("prompts")):
        prompt = task.prompt(example)
        text = isinstance(prompt, str) and bool(prompt)
        messages = isinstance(prompt, list) and all(
            isinstance(m, dict) and set(m) == {"role", "content"} for m in prompt
        )
        require(text or (messages and prompt), f"the prompt {prompt!r}")


@law("task")
def rewards_are_a_flat_list(task: Task, case: Case) -> None:
    """Each text is rewarded alone: other texts, their number and their order do not matter."""
    texts, examples = _answers(task, case)
    whole = task.reward(texts, examples)
    X, C = len(texts), len(whole.names)
    shapes = [tuple(t.shape) for t in (whole.total_X, whole.part_XC, whole.counted_X)]
    require(shapes == [(X,), (X, C), (X,)], f"shapes {shapes} of {X} texts, {C} components")
    require(tuple(whole.outcome_XC.shape) == (X, C), f"outcomes {tuple(whole.outcome_XC.shape)}")
    for x in case.order("alone", X)[:3].tolist():
        alone = task.reward([texts[x]], [examples[x]])
        same(alone.total_X, whole.total_X[x : x + 1], f"reward of {texts[x]!r} alone", 1e-6)
        same(alone.part_XC, whole.part_XC[x : x + 1], f"components of {texts[x]!r} alone", 1e-6)


@law("task")
def totals_are_weighted_sums(task: Task, case: Case) -> None:
    """A total is the weighted sum of its components; what has no value adds nothing."""
    texts, examples = _answers(task, case)
    found = task.reward(texts, examples)
    require(not (found.outcome_XC == ERROR).any(), "a reward raised an error")
    valued_XC = found.outcome_XC == VALUE
    require(found.total_X.isfinite().all(), f"totals {found.total_X.tolist()}")
    same(found.part_XC[~valued_XC], torch.zeros(int((~valued_XC).sum())), "parts without a value")
    same(found.total_X[~found.counted_X], torch.zeros(int((~found.counted_X).sum())), "totals")
    if hasattr(task, "rewards"):
        weight_C = torch.tensor([float(task.rewards[name]) for name in found.names])
        total_X = (found.part_XC.double() * weight_C.double()).sum(1)
        counted = found.counted_X
        same(found.total_X[counted], total_X[counted], "weighted sum", 1e-5)


@law("task")
def metrics_are_ratios(task: Task, case: Case) -> None:
    """Metrics give hits and denominators per text; those of `primary` are 0 or 1."""
    texts, examples = _answers(task, case)
    found = task.metrics(texts, examples)
    require(task.primary in found, f"{task.primary!r} is not among {sorted(found)}")
    for name, ratio in found.items():
        require(len(ratio.hits) == len(ratio.outof), f"{name}: lengths differ")
        pairs = list(zip(ratio.hits, ratio.outof, strict=True))
        require(all(0 <= hit <= out for hit, out in pairs), f"{name}: more hits than texts")
    require(set(found[task.primary].hits) <= {0, 1}, f"{task.primary}: hits other than 0 and 1")
