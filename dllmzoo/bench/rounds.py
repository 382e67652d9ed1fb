"""A round of EGSPO-SA: the real training loop on a finished rollout, and the plain way.

The rollout itself is measured step by step (`dllmzoo.bench.rollouts`); the loop then gets one from
a sampler that has it ready, so everything else of a round is measured as it runs in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dllmzoo.bench import plain, rollouts, states
from dllmzoo.bench.cases import OURS
from dllmzoo.bench.place import Place, built
from dllmzoo.bench.scores import adapters
from dllmzoo.bench.stand_ins import Ready, TokenCodec, Words
from dllmzoo.bench.stopwatch import Stopwatch, TimedAccelerator, TimedReference
from dllmzoo.bench.work import Unit, Work
from dllmzoo.flops import flops_backward, flops_forward
from dllmzoo.models._lora import reference_policy
from dllmzoo.training.loop import train
from dllmzoo.training.method import Budget, Learner, Method
from dllmzoo.training.rollout_copy import RolloutCopy
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SELECTORS

GROUP = 4
"""Samples of a prompt."""


def make(case: str, way: str, place: Place) -> Work:
    """The work of an arm of `round` or `round_bf16`."""
    policy = place.trained("llada")
    size = place.size
    facts: dict[str, Any] = {}
    half = case == "round_bf16" and way == OURS
    copy = RolloutCopy(policy, torch.bfloat16) if half else None
    body = policy if copy is None else copy.model
    units = rollouts.steps(way, place, body, size.temperature)
    flops = rollouts.step_flops(way, place, policy)
    if way == OURS:
        rest, more = our_rest(place, policy, facts, copy)
    else:
        rest, more = plain_rest(place, policy, facts)
    return Work([*units, *rest], flops + more, size.rows * size.answer, facts)


def our_rest(
    place: Place, policy: Any, facts: dict[str, Any], copy: RolloutCopy | None = None
) -> tuple[list[Unit], int]:
    """All of a round behind its rollout, by `training.loop.train`.

    Args:
        place: size and device.
        policy: what is trained.
        facts: gets the seconds that the loop spends itself.
        copy: samples instead, and is brought up to date in the round.
    """
    size, watch = place.size, Stopwatch(place)
    made = states.rollout(place, policy, size.rows)
    task: Any = Words()
    sampler: Any = Ready(made)
    method = Method(
        task, sampler, built(SELECTORS, "entropy", steps=size.states),
        built(LIKELIHOODS, "denoising_steps"), built(ADVANTAGES, "stepwise_one_shot"),
        built(LOSSES, "clipped_surrogate", kl="k3", kl_coef=0.01, normaliser="step"),
    )  # fmt: skip
    learner = replace(learner_of(place, policy, watch), rollouts=copy)
    budget = Budget(
        prompts=size.rows // GROUP, group_size=GROUP, micro_batch=size.micro_batch,
        rollout_batch=size.rows,
    )  # fmt: skip

    def run() -> Mapping[str, float]:
        rounds = train(method, budget, learner, seed=0, rounds=range(1))
        start = place.now()
        with watch.watching():
            meter = next(rounds)[1]
        total = place.now() - start
        spent = watch.seconds
        facts["busy"] = sum(spent.values())
        facts["overhead"] = total - facts["busy"]
        score = meter.row()["time/score"] or 0.0
        update = meter.row()["time/update"] or 0.0
        reference = min(spent.get("reference", 0.0), score)
        return {
            "guess and old": score - reference, "reference": reference, "update": update,
            "other": total - score - update,
        }  # fmt: skip

    rows, length = size.rows, size.length
    later = int((states.views(made, size.states)[1].hide_BKL).sum()) // size.states
    config, lora, few = policy.config, adapters(place), rows * size.commits
    each = flops_forward(config, rows, length, later, lora=lora)
    each += 2 * flops_forward(config, rows, length, few, lora=lora)
    each += flops_backward(config, rows, length, few, lora=lora)
    unit = Unit(run, 1.0, "round", None if place.on_gpu else _nothing)
    return [unit], size.states * each


def plain_rest(place: Place, policy: Any, facts: dict[str, Any]) -> tuple[list[Unit], int]:
    """The same by scripts: every state costs a forward each for guess, old, reference and new."""
    size = place.size
    made = states.rollout(place, policy, size.rows)
    learner = learner_of(place, policy, Stopwatch(place))
    _, views = states.views(made, size.states)
    number = min(size.plain_states, size.states)
    facts["measured states"] = f"{number} of {size.states}"
    hides = list(views.hide_BKL.unbind(1))[:number]

    def one_state(k: int) -> Mapping[str, float]:
        hide_BL, score_BL = hides[k], views.score_BKL[:, k]
        start = place.now()
        guessed_BL = plain.guess(policy.eval(), made.tokens_BL, hide_BL)
        Words().reward(learner.codec.texts(guessed_BL[:, -size.answer :]), made.examples)
        guessed = place.now()
        with torch.no_grad():
            old_BL = plain.logprobs(policy, made.tokens_BL, hide_BL, made.temperature)
            scored = place.now()
            anchor_BL = plain.logprobs(learner.reference, made.tokens_BL, hide_BL, made.temperature)
        anchored = place.now()
        new_BL = plain.logprobs(policy.train(), made.tokens_BL, hide_BL, made.temperature)
        surrogate(new_BL, old_BL, anchor_BL, score_BL).backward()
        updated = place.now()
        return {
            "guess": guessed - start, "old": scored - guessed, "reference": anchored - scored,
            "update": updated - anchored,
        }  # fmt: skip

    def apply() -> Mapping[str, float]:
        start = place.now()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        learner.optimizer.step()
        learner.optimizer.zero_grad()
        return {"update": place.now() - start}

    def one(k: int) -> Unit:
        return Unit(lambda: one_state(k), size.states / number, "state")

    config, lora = policy.config, adapters(place)
    each = 4 * flops_forward(config, size.rows, size.length, lora=lora)
    each += flops_backward(config, size.rows, size.length, lora=lora)
    return [*map(one, range(number)), Unit(apply, 1.0, "apply", _nothing)], size.states * each


def surrogate(new_BL: Tensor, old_BL: Tensor, anchor_BL: Tensor, score_BL: Tensor) -> Tensor:
    """The clipped surrogate of one step's log-prob with the k3 estimate of the KL."""
    worth_B = torch.linspace(-1, 1, len(new_BL), device=new_BL.device)
    zero = new_BL.new_zeros(())
    ratio_B = torch.where(score_BL, new_BL - old_BL, zero).sum(1).exp()
    gain_B = torch.minimum(ratio_B * worth_B, ratio_B.clamp(0.8, 1.5) * worth_B)
    away_BL = torch.where(score_BL, anchor_BL - new_BL, zero)
    kl_B = (away_BL.exp() - away_BL - 1).sum(1)
    return (0.01 * kl_B - gain_B).mean()


def learner_of(place: Place, policy: Any, watch: Stopwatch) -> Learner:
    """What is trained, as a run would make it."""
    size = place.size
    trained = [p for p in policy.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-6)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    codec = TokenCodec(place, size.prompt, policy.config.vocab_size)
    accelerator = TimedAccelerator(watch, cpu=not place.on_gpu)
    reference: Any = TimedReference(watch, reference_policy(policy))
    return Learner(policy, reference, optimizer, scheduler, accelerator, codec)


def _nothing() -> None:
    """No warm-up: what came before has warmed the threads, and the unit takes minutes."""
