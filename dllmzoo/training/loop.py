"""Policy-gradient post-training of a masked diffusion language model, top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from dllmzoo import protocols
from dllmzoo.records import Experience, Key, Rollout, Steps, Views
from dllmzoo.scoring import Scores, score, score_and_guess
from dllmzoo.training.choose import choose
from dllmzoo.training.grading import Grader
from dllmzoo.training.meter import Meter
from dllmzoo.training.method import Budget, Learner, Method, weights
from dllmzoo.training.sampling import draw, sample
from dllmzoo.training.sampling_gap import sampling_gap
from dllmzoo.training.update import update


def train(
    method: Method, budget: Budget, learner: Learner, *, seed: int, rounds: range
) -> Iterator[tuple[int, Meter, Experience]]:
    """Yield each round with its metrics and experience; the caller logs, saves and stops."""
    for round in rounds:
        meter = Meter(learner.accelerator, budget.micro_batch)
        start = weights(learner) if budget.log_drift else None
        seen = collect(method, budget, learner, meter, seed, round)
        fresh = True  # no optimiser step since the old policy was scored
        for pass_ in range(budget.passes):
            key = Key(seed, round, "minibatch", pass_)
            parts = split_groups(seen.rollout.group_B, budget.minibatches, key, budget.prompts)
            for part, rows in enumerate(parts):
                key = Key(seed, round, f"loss/{part}", pass_)
                update(method, budget, learner, meter, seen, key, rows, fresh=fresh)
                fresh = False
        if start is not None:
            meter.drift(start, weights(learner), shards=learner.shards)
        yield round, meter, seen


@torch.no_grad()
def collect(
    method: Method, budget: Budget, learner: Learner, meter: Meter, seed: int, round: int
) -> Experience:
    """Sample, choose steps, score old and reference, assign credit.

    The grader judges answers and guesses meanwhile; the advantage waits for it.
    """
    policy = learner.accelerator.unwrap_model(learner.policy).eval()
    likelihood, loss = method.likelihood, method.loss

    def key(purpose: str, pass_: int = 0) -> Key:
        return Key(seed, round, purpose, pass_)

    with Grader(method.task, learner, meter) as grader:
        with meter.time("rollout"):
            prompts = draw(method, budget, learner, key("prompts"))
            rollout = sample(
                method.sampler, learner.sampling_policy, prompts, key("sample"),
                budget.rollout_batch, grader.answers,
            )  # fmt: skip
        meter.sampled(rollout, method.sampler)
        choice = choose(method, rollout, grader, key("select"))
        steps = choice.steps

        def plans(purpose: str) -> tuple[Views, ...]:
            number = budget.passes if likelihood.random else 1
            made = [
                likelihood.plan(rollout, steps, key(purpose, p), budget.passes)
                for p in range(number)
            ]
            return tuple(made * (budget.passes // number))

        views = plans("views")
        anchors = views if likelihood.shares_masks else plans("old_views")

        def scorer(network: protocols.Policy | None) -> Callable[[Views], Scores]:
            assert network is not None
            return lambda plan: score(network, rollout, plan, micro_batch=budget.micro_batch)

        refined = hasattr(likelihood, "refine")
        with meter.time("score"):
            guessed = method.advantage.needs_previews and choice.advantage_BA is None
            first = score_first(
                method, budget, policy, rollout, anchors[0], steps if guessed else None,
                key("guesses"),
            )  # fmt: skip
            guesses = None
            if first.guess_BKL is not None:
                guesses = grader.guesses(rollout, first.guess_BKL)
            old = (first.logprob_BKL,)
            if loss.needs_old or refined:
                old = once(anchors, scorer(policy), first)
            for plan in {id(plan): plan for plan in anchors[: len(old)]}.values():
                meter.scored(plan, rollout)
            if refined:
                views, old = refine(likelihood, anchors, old)
                anchors = views
            reference = once(anchors, scorer(learner.reference)) if loss.needs_reference else ()
            for plan in {id(plan): plan for plan in anchors}.values():
                meter.scored(plan, rollout, times=int(bool(reference)))
            if learner.rollouts is not None or getattr(method.sampler, "approximate", False):
                sampling_gap(policy, rollout, key("gap"), budget.micro_batch).into(meter)
        meter.estimator(likelihood, anchors[0], old[0])

        rewards = grader.finals.rewards
        previews = choice.previews if guesses is None else guesses.rewards
    advantage_BA = choice.advantage_BA
    if advantage_BA is None:
        advantage_BA = method.advantage(rewards, previews, steps, rollout, round)
    meter.experience(rollout, steps, rewards, previews, advantage_BA)
    meter.ratios(grader.finals.metrics, "rollout")
    return Experience(
        rollout, steps, rewards, advantage_BA, views, anchors, old, reference,
        choice.guess_BKL if first.guess_BKL is None else first.guess_BKL, previews,
    )  # fmt: skip


def score_first(
    method: Method, budget: Budget, policy: protocols.Policy, rollout: Rollout, views: Views,
    steps: Steps | None, key: Key,
) -> Scores:  # fmt: skip
    """Old log-probs of the first plan, with one-shot guesses of the states before `steps`."""
    if steps is not None:
        guesses = getattr(method.advantage, "guesses", 1)
        return score_and_guess(
            policy, rollout, views, steps, micro_batch=budget.micro_batch, guesses=guesses, key=key
        )
    return score(policy, rollout, views, micro_batch=budget.micro_batch)


def once(
    plans: tuple[Views, ...], scorer: Callable[[Views], Scores], first: Scores | None = None
) -> tuple[Tensor, ...]:
    """Log-probs of every plan; a plan that serves several passes is scored once."""
    known: dict[int, Tensor] = {} if first is None else {id(plans[0]): first.logprob_BKL}
    for plan in plans:
        if id(plan) not in known:
            known[id(plan)] = scorer(plan).logprob_BKL
    return tuple(known[id(plan)] for plan in plans)


def refine(
    likelihood: protocols.Likelihood, plans: tuple[Views, ...], old: tuple[Tensor, ...]
) -> tuple[tuple[Views, ...], tuple[Tensor, ...]]:
    """Plans that the likelihood changes once the old policy has scored them, and their scores."""
    made: dict[int, Views] = {}
    for plan, logprob_BKL in zip(plans, old, strict=True):
        if id(plan) not in made:
            made[id(plan)] = likelihood.refine(plan, logprob_BKL)  # type: ignore[attr-defined]
    views = tuple(made[id(plan)] for plan in plans)
    kept = [torch.where(v.score_BKL, lp, 0) for v, lp in zip(views, old, strict=True)]
    return views, tuple(kept)


def split_groups(group_B: Tensor, parts: int, key: Key, num_groups: int) -> list[Tensor]:
    """Row numbers of `parts` minibatches of whole groups, in a keyed order.

    The split is one of all groups of the round, so it is the same whatever the number of
    processes; a process may hold no row of a minibatch.
    """
    if parts == 1:
        return [torch.arange(len(group_B), device=group_B.device)]
    order = torch.randperm(num_groups, generator=key.generator()).to(group_B.device)
    return [torch.isin(group_B, part).nonzero()[:, 0] for part in order.chunk(parts)]
