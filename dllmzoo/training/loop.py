"""Policy-gradient post-training of a masked diffusion language model, top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from einops import rearrange
from torch import Tensor

from dllmzoo import protocols
from dllmzoo.records import Experience, Key, Rollout, Steps, Views
from dllmzoo.scoring import Scores, score, score_and_guess
from dllmzoo.training.meter import Meter
from dllmzoo.training.method import Budget, Learner, Method
from dllmzoo.training.sampling import answers, canvas, draw, sample
from dllmzoo.training.update import update


def train(
    method: Method, budget: Budget, learner: Learner, *, seed: int, rounds: range
) -> Iterator[tuple[int, Meter, Experience]]:
    """Yield each round with its metrics and experience; the caller logs, saves and stops."""
    for round in rounds:
        meter = Meter(learner.accelerator)
        seen = collect(method, budget, learner, meter, seed, round)
        fresh = True  # no optimiser step since the old policy was scored
        for pass_ in range(budget.passes):
            key = Key(seed, round, "minibatch", pass_)
            for rows in split_groups(seen.rollout.group_B, budget.minibatches, key, budget.prompts):
                update(method, budget, learner, meter, seen, pass_, rows, fresh=fresh)
                fresh = False
        yield round, meter, seen


@torch.no_grad()
def collect(
    method: Method, budget: Budget, learner: Learner, meter: Meter, seed: int, round: int
) -> Experience:
    """Sample, choose steps, score old and reference, reward, assign credit."""
    policy = learner.accelerator.unwrap_model(learner.policy).eval()
    likelihood, loss = method.likelihood, method.loss

    def key(purpose: str, pass_: int = 0) -> Key:
        return Key(seed, round, purpose, pass_)

    with meter.time("rollout"):
        prompts = draw(method, budget, learner, key("prompts"))
        rollout = sample(method.sampler, policy, prompts, key("sample"), budget.rollout_batch)
    block = getattr(method.sampler, "block_length", None) or canvas(rollout)
    meter.forward(rollout.forwards, rollout.tokens_BL.shape[1], rollout.forwards * block // 2)
    steps = method.selector(rollout, key("select")) if method.selector else None

    def plans(purpose: str) -> tuple[Views, ...]:
        number = budget.passes if likelihood.random else 1
        made = [
            likelihood.plan(rollout, steps, key(purpose, p), budget.passes) for p in range(number)
        ]
        return tuple(made * (budget.passes // number))

    views = plans("views")
    anchors = views if likelihood.shares_masks else plans("old_views")

    def scorer(network: protocols.Policy | None) -> Callable[[Views], Scores]:
        assert network is not None
        return lambda plan: score(network, rollout, plan, micro_batch=budget.micro_batch)

    with meter.time("score"):
        first = score_first(method, budget, policy, rollout, anchors[0], steps, key("guesses"))
        old = (first.logprob_BKL,)
        if loss.needs_old:
            old = once(anchors, scorer(policy), first)
        reference = once(anchors, scorer(learner.reference)) if loss.needs_reference else ()
    meter.scored(anchors[0])
    for plan in {id(plan): plan for plan in anchors}.values():
        others = int(bool(reference)) + int(loss.needs_old and plan is not anchors[0])
        meter.scored(plan, times=others)
    with meter.time("reward"):
        texts = learner.codec.texts(answers(rollout.tokens_BL, rollout))
        rewards = method.task.reward(texts, rollout.examples)
        previews = None
        if first.guess_BKL is not None:
            guessed = rearrange(first.guess_BKL, "b k l -> (b k) l")
            repeat = first.guess_BKL.shape[1]
            again = [example for example in rollout.examples for _ in range(repeat)]
            previews = method.task.reward(
                learner.codec.texts(guessed[:, -canvas(rollout) :]), again
            )
    advantage_BA = method.advantage(rewards, previews, steps, rollout, round)
    meter.experience(rollout, steps, rewards, previews, advantage_BA)
    meter.ratios(method.task.metrics(texts, rollout.examples), "rollout")
    return Experience(
        rollout, steps, rewards, advantage_BA, views, anchors, old, reference, first.guess_BKL,
        previews,
    )  # fmt: skip


def score_first(
    method: Method, budget: Budget, policy: protocols.Policy, rollout: Rollout, views: Views,
    steps: Steps | None, key: Key,
) -> Scores:  # fmt: skip
    """Old log-probs of the first plan, with one-shot guesses if the advantage wants previews."""
    if method.advantage.needs_previews and steps is not None:
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


def split_groups(group_B: Tensor, parts: int, key: Key, num_groups: int) -> list[Tensor]:
    """Row numbers of `parts` minibatches of whole groups, in a keyed order.

    The split is one of all groups of the round, so it is the same whatever the number of
    processes; a process may hold no row of a minibatch.
    """
    if parts == 1:
        return [torch.arange(len(group_B), device=group_B.device)]
    order = torch.randperm(num_groups, generator=key.generator()).to(group_B.device)
    return [torch.isin(group_B, part).nonzero()[:, 0] for part in order.chunk(parts)]
