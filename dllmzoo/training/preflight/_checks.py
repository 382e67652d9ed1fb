"""All checks of a policy in order, and the start of a run, which stops at what they refuse."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from dllmzoo.errors import DllmzooError, ModelError
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.training.method import Learner
from dllmzoo.training.preflight import _network, _ratio, _tokens, _weights
from dllmzoo.training.preflight._verdict import Subject, Verdict

log = logging.getLogger("dllmzoo")

CHECKS: dict[str, Callable[[Subject], Verdict]] = {
    "mask id": _tokens.mask_id,
    "tokenizer": _tokens.tokenizer,
    "chat template": _tokens.chat_template,
    "logit alignment": _network.logit_alignment,
    "batch invariance": _network.batch_invariance,
    "first ratio": _ratio.first_ratio,
    "LoRA coverage": _weights.lora_coverage,
    "memory": _weights.memory,
}


def preflight(recipe: Recipe, learner: Learner, *, full: bool = False) -> list[Verdict]:
    """A verdict on each property that training takes for granted; changes nothing.

    A dozen forwards of a few rows and one rollout of two answers. Every process does the same, so
    that sharded parameters can be gathered.

    Args:
        recipe: checked.
        learner: what it loaded.
        full: more examples, every answer slot, padding on both sides.
    """
    subject, found = Subject(recipe, learner, full), []
    training, said = subject.policy.training, set()
    for name, check in CHECKS.items():
        try:
            with torch.random.fork_rng(devices=[]):
                verdict = check(subject)
        except DllmzooError as error:
            verdict = Verdict(name, "failed", str(error))
        if verdict.outcome == "failed" and verdict.message in said:
            verdict = Verdict(name, "skipped", "for the reason given above")
        said.add(verdict.message)
        found.append(verdict)
    subject.policy.train(training)
    return found


def at_start(recipe: Recipe, learner: Learner) -> None:
    """The short form: one line in the log, or an error that names everything that is wrong.

    Raises:
        ModelError: a check failed.
    """
    found = preflight(recipe, learner)
    failed = [verdict for verdict in found if verdict.outcome == "failed"]
    if failed:
        raise ModelError(
            "this policy cannot be trained as it is (`dllmzoo check RECIPE --preflight` says "
            "more):\n  " + "\n  ".join(map(str, failed))
        )
    good = [verdict.name for verdict in found if verdict.outcome == "ok"]
    open_ = [verdict.name for verdict in found if verdict.outcome == "undecided"]
    log.info(
        "preflight: %s ok%s", ", ".join(good),
        f"; undecided: {', '.join(open_)}" if open_ else "",
    )  # fmt: skip
