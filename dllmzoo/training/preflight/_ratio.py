"""Before any update, the new policy is the old one: every ratio of a round begins at 1."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dllmzoo.records import Key, Rollout, Steps, Views
from dllmzoo.scoring import score
from dllmzoo.training.preflight._verdict import Subject, Verdict

LIMIT = {
    torch.float64: 1e-9, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2,
}  # fmt: skip
"""Nats that a log-ratio may be off, as a share of the unit's log-prob (of 1 if that is less)."""


@torch.no_grad()
def first_ratio(subject: Subject) -> Verdict:
    """A plan made twice, scored as the old policy and as the one in training: equal log-probs.

    Old log-probs come from the policy in evaluation mode, gradients from training mode with every
    dropout at 0; a plan depends on its key alone.
    """
    name, recipe = "first ratio", subject.recipe
    if recipe.stage == "sft":
        return Verdict(name, "skipped", "supervised training compares no policies")
    rollout = _rollout(subject)
    steps = _steps(recipe.selector, rollout)
    plans: list[Views] = [
        recipe.likelihood.plan(rollout, steps, Key(recipe.seed, 0, "preflight/views"), 1)
        for _ in range(2)
    ]
    policy = subject.policy.eval()
    old = _units(subject, policy, rollout, plans[0])
    try:
        new = _units(subject, policy.train(), rollout, plans[1])
    finally:
        policy.eval()
    if old.shape != new.shape:
        return Verdict(
            name, "failed", f"two plans of one key have {old.shape[1]} and {new.shape[1]} units",
            "a likelihood must draw from its key and from nothing else",
        )  # fmt: skip
    gap = float(((new - old).abs() / old.abs().clamp(min=1.0)).max())
    if not gap <= LIMIT[subject.dtype]:
        return Verdict(
            name, "failed",
            f"log-probs of units differ by a share of {gap:.2g} between the old policy and the "
            f"new one, which are the same weights; {LIMIT[subject.dtype]:.0e} is rounding",
            "set every dropout of the network to 0; a likelihood must draw from its key alone",
        )  # fmt: skip
    own = "" if recipe.likelihood.shares_masks else "; old and new draw masks of their own"
    return Verdict(
        name, "ok", f"1 in {old.numel()} units of {len(old)} answers, off by {gap:.1g}{own}"
    )


def _rollout(subject: Subject) -> Rollout:
    """Two answers to one prompt, or as many as the sampler needs."""
    assert subject.canvases, "refuses ids that the network does not have"
    recipe, key = subject.recipe, Key(subject.recipe.seed, 0, "preflight")
    examples = recipe.task.draw(1, key)
    size = getattr(recipe.sampler, "group_size", None) or 2
    prompts = subject.codec.prompts(
        recipe.task, examples, size, answer_length=recipe.sampler.answer_length
    )
    prompts = subject.codec.with_given(prompts, recipe.task, recipe.sampler, key.sub("given"))
    return recipe.sampler(subject.policy.eval(), prompts, key.sub("sample"))


def _steps(selector: Any, rollout: Rollout) -> Steps | None:
    if selector is None:
        return None
    key = Key(0, 0, "preflight/select")
    if not getattr(selector, "needs_advantage", False):
        return selector(rollout, key)
    B = len(rollout.tokens_BL)
    even_BT = torch.zeros(B, rollout.num_steps, device=rollout.tokens_BL.device)
    return selector(rollout, key, even_BT)


def _units(subject: Subject, policy: Any, rollout: Rollout, views: Views) -> Tensor:
    """Log-probs of the units, (B, U), 0 where a unit is idle."""
    likelihood = subject.recipe.likelihood
    logprob_BKL = score(
        policy, rollout, views, micro_batch=subject.recipe.train.micro_batch
    ).logprob_BKL
    if hasattr(likelihood, "refine"):
        views = likelihood.refine(views, logprob_BKL)
        logprob_BKL = torch.where(views.score_BKL, logprob_BKL, 0)
    sign_B = 1.0 - 2.0 * (torch.arange(len(logprob_BKL), device=logprob_BKL.device) % 2)
    advantage_BU = views.credit(sign_B.unsqueeze(1))
    estimate = likelihood.pool(logprob_BKL, views, rollout, advantage_BU)
    return torch.where(views.live_BU, estimate.ratio_BU, 0)
