"""Log-probs with their gradients: the two phases of an update against one forward per state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from dllmzoo.bench import plain, states
from dllmzoo.bench.cases import OURS
from dllmzoo.bench.place import Place
from dllmzoo.bench.work import Unit, Work
from dllmzoo.flops import flops_backward, flops_forward
from dllmzoo.recipe.sections import Lora
from dllmzoo.records import Rollout, Views
from dllmzoo.scoring import replay, score


def make(case: str, way: str, place: Place) -> Work:
    """The work of an arm of `score`, `score_again` or `score_elbo`."""
    size = place.size
    network = place.trained("llada").train()
    made = states.rollout(place, network, size.rows)
    of_states = case != "score_elbo"
    views = states.views(made, size.states)[1] if of_states else states.whole_answer(made)
    first = of_states if way == OURS else case == "score"
    return work(way, place, network, made, views, first=first)


def work(way: str, place: Place, network: Any, made: Rollout, views: Views, *, first: bool) -> Work:
    """Scores and gradients of views; the warm-up is one of them.

    Args:
        way: `ours` or `plain`.
        place: size and device.
        network: in training mode.
        made: the rollout.
        views: what is hidden and scored.
        first: the views are scored without gradient first: by ours as the leaf of the loss, which
            are the old log-probs in the first update of a round; by plain as old log-probs.
    """
    run = partial(ours if way == OURS else by_state, place, network, made, first=first)
    one = replace(views, hide_BKL=views.hide_BKL[:, :1], score_BKL=views.score_BKL[:, :1])
    unit = Unit(partial(run, views), warm=partial(run, one))
    rows, length = len(made.tokens_BL), made.tokens_BL.shape[1]
    number = views.hide_BKL.shape[1]
    scored = int(views.score_BKL.sum()) // number if way == OURS else None
    lora = adapters(place)
    config = network.config
    forward = flops_forward(config, rows, length, scored, lora=lora)
    total = number * (forward + flops_backward(config, rows, length, scored, lora=lora))
    if first:
        total += number * forward
    return Work([unit], total, number * made.tokens_BL.numel())


def adapters(place: Place) -> Lora | None:
    """Of the trained network, for the FLOP count."""
    rank = place.size.lora
    return Lora(preset="attention", rank=rank, alpha=float(rank)) if rank else None


def ours(
    place: Place, network: Any, made: Rollout, views: Views, *, first: bool
) -> Mapping[str, float]:
    """Log-probs without gradient, then the replay of the views in chunks."""
    grad_BKL = states.gradient(views.score_BKL)
    micro_batch = place.size.micro_batch
    parts = {}
    if first:
        parts["old or leaf"] = place.seconds(
            lambda: score(network, made, views, micro_batch=micro_batch)
        )
    parts["gradient"] = place.seconds(
        lambda: replay(network, made, views, grad_BKL, micro_batch=micro_batch)
    )
    network.zero_grad(set_to_none=True)
    return parts


def by_state(
    place: Place, network: Any, made: Rollout, views: Views, *, first: bool
) -> Mapping[str, float]:
    """A forward of full length and a backward for each state, gradients added up."""
    grad_BKL = states.gradient(views.score_BKL)
    given = network, made.tokens_BL, views.hide_BKL

    @torch.no_grad()
    def old() -> None:
        for _ in plain.scored(*given, views.temperature):
            pass

    parts = {"old or leaf": place.seconds(old)} if first else {}
    parts["gradient"] = place.seconds(lambda: plain.accumulate(*given, grad_BKL, views.temperature))
    network.zero_grad(set_to_none=True)
    return parts
