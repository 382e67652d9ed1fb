"""Policy-gradient post-training of a masked diffusion language model, top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from dllmzoo import protocols
from dllmzoo.records import Experience, Key, Prompts, Rollout, Steps, Views, join, take
from dllmzoo.scoring import Scores, score, score_and_guess
from dllmzoo.training.meter import Meter
from dllmzoo.training.update import update


@dataclass(frozen=True)
class Method:
    """The parts a recipe names: all that makes one method differ from another."""

    task: protocols.Task
    sampler: protocols.Sampler
    selector: protocols.Selector | None
    likelihood: protocols.Likelihood
    advantage: protocols.Advantage
    loss: protocols.Loss


@dataclass(frozen=True)
class Budget:
    """How much of everything; counts are of all processes together. See `recipe.sections.Train`."""

    prompts: int
    group_size: int
    passes: int = 1
    minibatches: int = 1
    micro_batch: int = 64
    rollout_batch: int = 256
    max_grad_norm: float | None = 1.0


@dataclass(frozen=True)
class Learner:
    """What is trained and with what: networks, optimiser, processes, text codec."""

    policy: Any
    reference: protocols.Policy | None
    optimizer: torch.optim.Optimizer
    scheduler: Any
    accelerator: Any
    codec: Any


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


def draw(method: Method, budget: Budget, learner: Learner, key: Key) -> Prompts:
    """This process's share of the round's prompts: whole groups, in order."""
    accelerator = learner.accelerator
    share = budget.prompts // accelerator.num_processes
    first = share * accelerator.process_index
    examples = method.task.draw(budget.prompts, key)[first : first + share]
    length = method.sampler.answer_length  # type: ignore[attr-defined]
    return learner.codec.prompts(
        method.task, examples, budget.group_size, answer_length=length, first=first
    )


def sample(
    sampler: protocols.Sampler, policy: protocols.Policy, prompts: Prompts, key: Key, batch: int
) -> Rollout:
    """Roll out `batch` rows at a time; a row's answer does not depend on the batch."""
    rows = torch.arange(len(prompts.tokens_BL))
    return join([sampler(policy, take(prompts, part), key) for part in rows.split(batch)])


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


def canvas(rollout: Rollout) -> int:
    """N: the answer slots are the last N of each row."""
    return int(rollout.answer_BL[0].sum())


def answers(tokens_BL: Tensor, rollout: Rollout) -> Tensor:
    """The answer slots, (B, N)."""
    return tokens_BL[:, -canvas(rollout) :]


def split_groups(group_B: Tensor, parts: int, key: Key, num_groups: int) -> list[Tensor]:
    """Row numbers of `parts` minibatches of whole groups, in a keyed order.

    The split is one of all groups of the round, so it is the same whatever the number of
    processes; a process may hold no row of a minibatch.
    """
    if parts == 1:
        return [torch.arange(len(group_B), device=group_B.device)]
    order = torch.randperm(num_groups, generator=key.generator()).to(group_B.device)
    return [torch.isin(group_B, part).nonzero()[:, 0] for part in order.chunk(parts)]
